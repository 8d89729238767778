// Command pod-metrics is a small adapter for custom metrics: it answers custom.metrics.k8s.io for
// pods with what Prometheus has of them. The API is that of the library on which such adapters
// stand; the metric NAME of a pod is the sum of its series NAME, found by the labels `namespace`
// and `pod`.
package main

import (
	"context"
	"log"
	"os"

	"sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
)

func main() {
	adapter := &cmd.AdapterBase{Name: "pod-metrics"}
	url := adapter.Flags().String("prometheus-url", "", "where Prometheus answers")
	if err := adapter.Flags().Parse(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
	cluster, err := adapter.DynamicClient()
	if err != nil {
		log.Fatal(err)
	}
	adapter.WithCustomMetrics(podMetrics{cluster, prometheus{*url}})
	log.Fatal(adapter.Run(context.Background()))
}
