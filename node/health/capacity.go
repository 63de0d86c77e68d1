package health

import (
	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/transport/clientport"
)

// The log warns at warnShare of a capacity, and again only after the use was below calmShare, because the number of
// sessions fluctuates around any single threshold.
const (
	warnShare = 0.8
	calmShare = 0.7
)

// CapacityWarning warns in the log when a capacity is nearly used up. It belongs to one goroutine.
type CapacityWarning struct {
	logger hclog.Logger
	of     string
	// refused names the requests that are refused at the capacity.
	refused string
	// read returns the used share, and the numbers for the log.
	read   func() (share float64, numbers []any)
	warned bool
}

// Check logs a warning when the capacity becomes nearly used up, and another line when it no longer is.
func (w *CapacityWarning) Check() {
	switch share, numbers := w.read(); {
	case !w.warned && share >= warnShare:
		w.warned = true
		w.logger.Warn("limit nearly reached: "+w.refused+" are refused at the limit", append(numbers, "of", w.of)...)
	case w.warned && share < calmShare:
		w.warned = false
		w.logger.Info("limit no longer near", append(numbers, "of", w.of)...)
	}
}

// WarnOfSessions returns the warning of the capacity for sessions.
func WarnOfSessions(logger hclog.Logger, of string, read func() session.Usage) *CapacityWarning {
	return &CapacityWarning{logger: logger, of: of, refused: "opens", read: func() (float64, []any) {
		u := read()
		return u.Share(), []any{
			"sessions", u.Sessions, "max_sessions", u.Capacity.MaxSessions, "bytes", u.Bytes, "max_state_bytes", u.Capacity.MaxBytes,
		}
	}}
}

// WarnOfTree returns the warning of the capacity of the tree.
func WarnOfTree(logger hclog.Logger, read func() clientport.TreeStatus) *CapacityWarning {
	return &CapacityWarning{logger: logger, of: "tree", refused: "writes that add to it", read: func() (float64, []any) {
		s := read()
		return float64(s.Bytes) / float64(max(s.Limit, 1)), []any{
			"entries", s.Entries, "bytes", s.Bytes, "max_tree_bytes", s.Limit,
		}
	}}
}
