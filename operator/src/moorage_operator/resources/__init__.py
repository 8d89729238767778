"""Pure builders of the children: the same model and configuration give the same bytes."""
