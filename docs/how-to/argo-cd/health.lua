-- Health of an InferenceModel for Argo CD. How to install it: docs/how-to/argo-cd.md
local status = obj.status or {}
if status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "Waiting for the operator to process this spec."}
end

local found = {}
for _, condition in ipairs(status.conditions) do
  found[condition.type] = condition
end
local ready, upToDate = found.Ready, found.UpToDate

-- Finalizers keep the model, which has no other condition then.
if ready.reason == "Deleting" then
  return {status = "Progressing", message = ready.message}
end
-- An edit waits until somebody resumes the model. The operator sets Stalled here as well.
if upToDate.reason == "Paused" then
  return {status = "Suspended", message = upToDate.message}
end
if found.Stalled then
  return {status = "Degraded", message = found.Stalled.message}
end
-- A canary at a step without pauseSeconds. The operator sets Reconciling here as well.
if upToDate.reason == "AwaitingApproval" then
  return {status = "Suspended", message = upToDate.message}
end
if found.Reconciling then
  return {status = "Progressing", message = found.Reconciling.message}
end
if ready.reason == "Suspended" then
  return {status = "Suspended", message = ready.message}
end
-- A model without replicas is healthy, as a Deployment without replicas is.
if ready.status == "True" or ready.reason == "ScaledToZero" then
  return {status = "Healthy", message = ready.message}
end
return {status = "Progressing", message = ready.message}
