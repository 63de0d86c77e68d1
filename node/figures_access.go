package node

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/auth"
	"holdfast/transport/guard"
)

// accessMetrics count refused callers, and what operators did.
func accessMetrics() []metric {
	all := []metric{
		gauge("auth_file_failing", "1 while auth_file cannot be read or makes no sense; what it said before stays in force.",
			func(f *figures) float64 { return truth(f.node.ports.access.failing()) }).
			when("1: the log names the line"),
	}
	for reason := range guard.Reasons {
		all = append(all, metric{
			name: "calls_forbidden_total", kind: prometheus.CounterValue, reason: reason.String(),
			help:  "Calls refused because of who calls: no token or certificate, an unknown or expired one, too few roles.",
			alarm: "it rises: a client lacks its token, or a stranger tries; the log has callers and calls",
			read:  func(f *figures) float64 { return float64(f.node.ports.access.Stats()[reason]) },
		})
	}
	for outcome := range guard.Outcomes {
		all = append(all, metric{
			name: "audit_lines_omitted_total", kind: prometheus.CounterValue, reason: outcome.String(),
			help: "Lines of the audit log that were not written because callers without a verified name, or without the role, " +
				"asked for more than 1,000 and one a second.",
			alarm: "it rises: a stranger floods the port; holdfast_operator_acts_total counts all acts",
			read:  func(f *figures) float64 { return float64(f.node.ports.access.audit.Omitted(outcome)) },
		})
	}
	acts := auth.ClientPort().Acts()
	slices.Sort(acts)
	for _, act := range acts {
		for outcome := range guard.Outcomes {
			all = append(all, metric{
				name: "operator_acts_total", kind: prometheus.CounterValue, reason: outcome.String(), act: act,
				help:  "What operators did through this node, by act and outcome.",
				alarm: "reason is refused: somebody tries what they may not",
				read:  func(f *figures) float64 { return float64(f.node.ports.access.audit.Count(act, outcome)) },
			})
		}
	}
	return all
}
