package wire

import (
	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
)

// tracedFrom returns the traces of entries, at most [session.MaxTraced]: a heartbeat is never refused for its traces.
func tracedFrom(all []*peerv1.Traced) []session.Traced {
	var traced []session.Traced
	for _, one := range all[:min(len(all), session.MaxTraced)] {
		if t := session.TraceFrom(one.GetTrace()); t != nil && one.GetIndex() > 0 {
			traced = append(traced, session.Traced{Index: one.GetIndex(), Trace: t})
		}
	}
	return traced
}
