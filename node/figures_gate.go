package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"holdfast/transport/gate"
)

// gateMetrics count the refusals of the gate, by the budget that was used up.
func gateMetrics() []metric {
	var all []metric
	for kind := range gate.Kinds {
		for scope := range gate.Scopes {
			name := gate.Budget(kind, scope)
			if name == "" {
				continue
			}
			all = append(all, metric{
				name: "client_" + kind.String() + "_refused_total", kind: prometheus.CounterValue, reason: name,
				help: "Refused " + kind.String() +
					", by the budget that was used up. Each refusal says when to come back.",
				alarm: "it rises for minutes: a herd does not last that long",
				read:  func(f *figures) float64 { return float64(f.client.Refusals[kind][scope]) },
			})
		}
	}
	return all
}
