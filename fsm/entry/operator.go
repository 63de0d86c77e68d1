package entry

import (
	"cmp"
	"fmt"
	"time"

	"holdfast/fsm/codec"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

func checkFreeze(c session.FreezeExpiry) error {
	if c.For <= 0 {
		return codec.OutOfRange("for", fmt.Sprintf("1 ms to %s", session.MaxFreeze))
	}
	if c.MS > session.MaxMS {
		return codec.OutOfRange("ms", codec.MSLimit)
	}
	return cmp.Or(session.CheckSpan(c.For), codec.CheckOperator(c.By, c.Why))
}

func checkExtend(c session.ExtendSession) error {
	if c.ID == 0 {
		return codec.OutOfRange("session_id", "not zero")
	}
	return session.CheckSpan(c.For)
}

func freezeProto(c session.FreezeExpiry) *logv1.FreezeExpiry {
	return &logv1.FreezeExpiry{ForMs: uint64(c.For.Milliseconds()), Ms: c.MS, By: c.By, Why: c.Why}
}

func extendProto(c session.ExtendSession) *logv1.ExtendSession {
	return &logv1.ExtendSession{Id: uint64(c.ID), ForMs: uint64(c.For.Milliseconds())}
}

// maxForMS is [session.MaxFreeze] in milliseconds.
const maxForMS = uint64(session.MaxFreeze / time.Millisecond)

// spanFrom returns the length of a freeze or an extension.
func spanFrom(ms uint64) (time.Duration, error) {
	if ms > maxForMS {
		return 0, codec.OutOfRange("for_ms", fmt.Sprintf("at most %d", maxForMS))
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func freezeFrom(m *logv1.FreezeExpiry) (session.Command, error) {
	span, err := spanFrom(m.GetForMs())
	return session.FreezeExpiry{For: span, MS: m.GetMs(), By: m.GetBy(), Why: m.GetWhy()},
		cmp.Or(codec.NoUnknownFields(m), err)
}

func extendFrom(m *logv1.ExtendSession) (session.Command, error) {
	span, err := spanFrom(m.GetForMs())
	return session.ExtendSession{ID: session.ID(m.GetId()), For: span}, cmp.Or(codec.NoUnknownFields(m), err)
}
