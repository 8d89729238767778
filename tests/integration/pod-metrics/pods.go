package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// podMetrics answers for pods, and for nothing else.
type podMetrics struct {
	cluster    dynamic.Interface
	prometheus prometheus
}

// ListAllMetrics lists none: whoever scales by a metric knows its name.
func (m podMetrics) ListAllMetrics() []provider.CustomMetricInfo {
	return nil
}

func (m podMetrics) GetMetricByName(
	ctx context.Context, pod types.NamespacedName, info provider.CustomMetricInfo, of labels.Selector,
) (*custom_metrics.MetricValue, error) {
	found, err := m.values(ctx, pod.Namespace, []string{pod.Name}, info, of)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, provider.NewMetricNotFoundForError(info.GroupResource, info.Metric, pod.Name)
	}
	return &found[0], nil
}

func (m podMetrics) GetMetricBySelector(
	ctx context.Context, namespace string, selector labels.Selector, info provider.CustomMetricInfo,
	of labels.Selector,
) (*custom_metrics.MetricValueList, error) {
	options := meta.ListOptions{LabelSelector: selector.String()}
	listed, err := m.cluster.Resource(pods).Namespace(namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(listed.Items))
	for i, pod := range listed.Items {
		names[i] = pod.GetName()
	}
	found, err := m.values(ctx, namespace, names, info, of)
	return &custom_metrics.MetricValueList{Items: found}, err
}

// values are of those pods of which Prometheus has the metric; of is a selector of series.
func (m podMetrics) values(
	ctx context.Context, namespace string, names []string, info provider.CustomMetricInfo,
	of labels.Selector,
) ([]custom_metrics.MetricValue, error) {
	if info.GroupResource != pods.GroupResource() || !of.Empty() {
		return nil, provider.NewMetricNotFoundError(info.GroupResource, info.Metric)
	}
	query := fmt.Sprintf(
		"sum by (pod) (%s{namespace=%q, pod=~%q})", info.Metric, namespace, strings.Join(names, "|"),
	)
	samples, err := m.prometheus.ask(ctx, query)
	if err != nil {
		return nil, err
	}
	found := make([]custom_metrics.MetricValue, len(samples))
	for i, sample := range samples {
		found[i] = custom_metrics.MetricValue{
			DescribedObject: custom_metrics.ObjectReference{
				APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: sample.labels["pod"],
			},
			Metric:    custom_metrics.MetricIdentifier{Name: info.Metric},
			Timestamp: meta.NewTime(sample.at),
			Value:     *resource.NewMilliQuantity(int64(sample.value*1000), resource.DecimalSI),
		}
	}
	return found, nil
}
