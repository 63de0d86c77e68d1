package fsm

import (
	"cmp"
	"time"

	"holdfast/fsm/codec"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// setTime sets the clocks and the freeze of a snapshot's header.
func setTime(m *logv1.Header, t session.LogTime) {
	m.ClockMs, m.HeldMs = uint64(t.Log.Milliseconds()), uint64(t.Held.Milliseconds())
	if f := t.Freeze; f != nil {
		m.Frozen = &logv1.Frozen{
			UntilMs: uint64(f.Until.Milliseconds()), SinceMs: session.MS(f.Since), By: f.By, Why: f.Why,
		}
	}
}

// timeFrom decodes the clocks and the freeze of a snapshot's header.
func timeFrom(m *logv1.Header) (session.LogTime, error) {
	t := session.LogTime{
		Log:  time.Duration(min(m.GetClockMs(), codec.MaxClockMS)) * time.Millisecond,
		Held: time.Duration(min(m.GetHeldMs(), codec.MaxClockMS)) * time.Millisecond,
	}
	f := m.GetFrozen()
	switch {
	case m.GetClockMs() > codec.MaxClockMS || m.GetHeldMs() > codec.MaxClockMS-m.GetClockMs():
		return t, codec.OutOfRange("clock_ms and held_ms", "together below 2^43")
	case f == nil:
		return t, nil
	case f.GetUntilMs() <= m.GetClockMs()+m.GetHeldMs() || f.GetUntilMs() > codec.MaxClockMS:
		return t, codec.OutOfRange("frozen.until_ms", "after clock_ms + held_ms, and below 2^43")
	case f.GetSinceMs() > session.MaxMS:
		return t, codec.OutOfRange("frozen.since_ms", codec.MSLimit)
	}
	t.Freeze = &session.Freeze{
		Until: time.Duration(f.GetUntilMs()) * time.Millisecond, Since: session.TimeOfMS(f.GetSinceMs()), By: f.GetBy(),
		Why: f.GetWhy(),
	}
	return t, cmp.Or(codec.NoUnknownFields(f), codec.CheckOperator(f.GetBy(), f.GetWhy()))
}
