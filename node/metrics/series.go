package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/auth"
	"holdfast/node/watchdog"
	"holdfast/transport/authz"
	"holdfast/transport/ratelimit"
)

// stalledNow has a series for each reason for which a node steps out.
func stalledNow() (all []series) {
	for r := range watchdog.Reasons {
		all = append(all, label("reason", r.String(), func(s *Snapshot) bool { return s.Stalls.Stalls[r] }))
	}
	return all
}

// stallCounts has a series for each reason for which a node steps out, and one for pauses of the process.
func stallCounts() (all []series) {
	for r := range watchdog.Reasons {
		all = append(all, label("reason", r.String(), func(s *Snapshot) uint64 { return s.Stalls.Stalled[r] }))
	}
	return append(all, label("reason", "scheduler", func(s *Snapshot) uint64 { return s.Stalls.Paused }))
}

// memoryLimits has a series for each source of the memory limit.
func memoryLimits() (all []series) {
	for _, by := range MemoryLimitSources() {
		all = append(all, label("source", by, func(s *Snapshot) uint64 {
			if s.Resources.MemoryLimitBy != by {
				return 0
			}
			return s.Resources.MemoryLimit
		}))
	}
	return all
}

// rateLimited has a series for each limit of a kind of request.
func rateLimited(kind ratelimit.Kind) (all []series) {
	for scope := range ratelimit.Scopes {
		if limit := ratelimit.LimitName(kind, scope); limit != "" {
			all = append(all, label("limit", limit, func(s *Snapshot) uint64 { return s.Client.Refusals[kind][scope] }))
		}
	}
	return all
}

// tlsRefused has a series for each port.
func tlsRefused() (all []series) {
	for port := range TLSPorts {
		all = append(all, label("port", port.String(), func(s *Snapshot) uint64 { return s.TLS.Refused[port] }))
	}
	return all
}

// forbidden has a series for each reason to refuse a caller.
func forbidden() (all []series) {
	for r := range authz.Reasons {
		all = append(all, label("reason", r.String(), func(s *Snapshot) uint64 { return s.Auth.Forbidden[r] }))
	}
	return all
}

// auditOmitted has a series for each outcome of an operator's action.
func auditOmitted() (all []series) {
	for o := range authz.Outcomes {
		all = append(all, label("outcome", o.String(), func(s *Snapshot) uint64 { return s.Audit.Omitted(o) }))
	}
	return all
}

// actionLabel is the label with the action of an operator.
const actionLabel = "action"

// operatorActions has a series for each action of operators and each outcome.
func operatorActions() (all []series) {
	actions := auth.ClientPort().Acts()
	slices.Sort(actions)
	for _, action := range actions {
		for o := range authz.Outcomes {
			all = append(all, series{
				labels: prometheus.Labels{actionLabel: action, "outcome": o.String()},
				read:   func(s *Snapshot) float64 { return float(s.Audit.Count(action, o)) },
			})
		}
	}
	return all
}
