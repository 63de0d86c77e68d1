package fsm

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// maxForMS is [session.MaxFreeze] in milliseconds.
const maxForMS = uint64(session.MaxFreeze / time.Millisecond)

// kept says that a session does not expire while the log clock is below a moment (Y4).
type kept struct {
	id    session.ID
	until time.Duration
}

// keeps are the sessions that are kept, by id, at most [session.MaxExtended]. Those whose moment has passed are there
// until a session is extended, or they end.
type keeps struct {
	all []kept
	// shared says that a frozen copy has all as well.
	shared bool
}

// find returns the position of a session, and whether it is there.
func (k *keeps) find(id session.ID) (int, bool) {
	return slices.BinarySearchFunc(k.all, id, func(one kept, id session.ID) int { return cmp.Compare(one.id, id) })
}

// until returns the moment below which a session does not expire, 0 for a session that is not kept.
func (k *keeps) until(id session.ID) time.Duration {
	if i, ok := k.find(id); ok {
		return k.all[i].until
	}
	return 0
}

// freeze returns a copy that never changes.
func (k *keeps) freeze() keeps {
	k.shared = true
	return *k
}

// own makes k's sessions its own, before they are changed.
func (k *keeps) own() {
	if k.shared {
		k.all, k.shared = slices.Clone(k.all), false
	}
}

// keep has a session kept until a moment of the log clock, and drop has it kept no more. passed drops those whose
// moment has passed. These three alone change keeps, and keep the digest up to date.

func (s *space) keep(one kept) {
	s.drop(one.id)
	i, _ := s.keeps.find(one.id)
	s.keeps.own()
	s.keeps.all = slices.Insert(s.keeps.all, i, one)
	s.Add(one.canonical())
}

func (s *space) drop(id session.ID) {
	if i, ok := s.keeps.find(id); ok {
		s.Remove(s.keeps.all[i].canonical())
		s.keeps.own()
		s.keeps.all = slices.Delete(s.keeps.all, i, i+1)
	}
}

func (s *space) passed() {
	s.keeps.own()
	s.keeps.all = slices.DeleteFunc(s.keeps.all, func(one kept) bool {
		if one.until > s.time.Log {
			return false
		}
		s.Remove(one.canonical())
		return true
	})
}

func (k kept) canonical() []byte {
	return be64([]byte{keptThing}, uint64(k.id), uint64(k.until.Milliseconds()))
}

// mayExpire reports whether a close for an expiry takes effect (Y3, Y4).
func (s *step) mayExpire(id session.ID) bool {
	return s.space.time.Freeze == nil && s.space.keeps.until(id) <= s.space.time.Log
}

// ofOperators carries out what operators do to expiry.
func (s *step) ofOperators(c session.Command) error {
	switch c := c.(type) {
	case session.FreezeExpiry:
		s.space.time.Freeze = &session.Freeze{
			Until: s.space.time.Running() + c.For, Since: session.TimeOfMS(c.MS), By: c.By, Why: c.Why,
		}
	case session.ThawExpiry:
		s.space.time.Freeze = nil
	case session.ExtendSession:
		return s.extend(c)
	}
	return nil
}

// extend keeps a session for a time (Y4).
func (s *step) extend(c session.ExtendSession) error {
	if _, ok := s.session(c.ID); !ok {
		return s.expired(c.ID)
	}
	s.space.passed()
	if c.For == 0 {
		s.space.drop(c.ID)
		return nil
	}
	if _, ok := s.space.keeps.find(c.ID); !ok && len(s.space.keeps.all) >= session.MaxExtended {
		return &session.LimitError{Name: "extended_sessions", Limit: strconv.Itoa(session.MaxExtended)}
	}
	s.space.keep(kept{c.ID, s.space.time.Log + c.For})
	return nil
}

// Kept returns the moment of the log clock below which a session does not expire, 0 for a session that nobody has
// extended (Y4).
func (t *Tree) Kept(id session.ID) time.Duration { return t.keeps.until(id) }

// Extended returns how many sessions are kept at the present moment of the log clock.
func (t *Tree) Extended() (n int) {
	for _, one := range t.keeps.all {
		if one.until > t.Clock {
			n++
		}
	}
	return n
}

// canonicalTime appends what the digest says of freezes: nothing before the first one.
func canonicalTime(b []byte, t session.LogTime) []byte {
	if t.Held == 0 && t.Freeze == nil {
		return b
	}
	b = be64(append(b, freezeThing), uint64(t.Held.Milliseconds()))
	if f := t.Freeze; f != nil {
		b = be64(b, uint64(f.Until.Milliseconds()), session.MS(f.Since))
		for _, text := range []string{f.By, f.Why} {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
		}
	}
	return b
}

func checkFreeze(c session.FreezeExpiry) error {
	if c.For <= 0 {
		return outOfRange("for", fmt.Sprintf("1 ms to %s", session.MaxFreeze))
	}
	if c.MS > session.MaxMS {
		return outOfRange("ms", msLimit)
	}
	return cmp.Or(session.CheckSpan(c.For), checkAct(c.By, c.Why))
}

func checkExtend(c session.ExtendSession) error {
	if c.ID == 0 {
		return outOfRange("session_id", "not zero")
	}
	return session.CheckSpan(c.For)
}

// spanFrom reads the length of a freeze or of an extension.
func spanFrom(ms uint64) (time.Duration, error) {
	if ms > maxForMS {
		return 0, outOfRange("for_ms", fmt.Sprintf("at most %d", maxForMS))
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func freezeProto(c session.FreezeExpiry) *logv1.FreezeExpiry {
	return &logv1.FreezeExpiry{ForMs: uint64(c.For.Milliseconds()), Ms: c.MS, By: c.By, Why: c.Why}
}

func freezeFrom(m *logv1.FreezeExpiry) (session.Command, error) {
	span, err := spanFrom(m.GetForMs())
	return session.FreezeExpiry{For: span, MS: m.GetMs(), By: m.GetBy(), Why: m.GetWhy()},
		cmp.Or(noUnknownFields(m), err)
}

func extendProto(c session.ExtendSession) *logv1.ExtendSession {
	return &logv1.ExtendSession{Id: uint64(c.ID), ForMs: uint64(c.For.Milliseconds())}
}

func extendFrom(m *logv1.ExtendSession) (session.Command, error) {
	span, err := spanFrom(m.GetForMs())
	return session.ExtendSession{ID: session.ID(m.GetId()), For: span}, cmp.Or(noUnknownFields(m), err)
}

// operatorCommandFrom returns what an operator does to expiry, and its name; "" when there is none.
func operatorCommandFrom(of *logv1.Command) (name string, c session.Command, err error) {
	switch m := of.GetCommand().(type) {
	case *logv1.Command_FreezeExpiry:
		name = "freeze_expiry"
		c, err = freezeFrom(m.FreezeExpiry)
	case *logv1.Command_ThawExpiry:
		name = "thaw_expiry"
		c, err = session.ThawExpiry{}, noUnknownFields(m.ThawExpiry)
	case *logv1.Command_ExtendSession:
		name = "extend_session"
		c, err = extendFrom(m.ExtendSession)
	}
	return name, c, err
}

// setTime puts the clocks and the freeze of the tree into a snapshot's header.
func setTime(m *logv1.Header, t session.LogTime) {
	m.ClockMs, m.HeldMs = uint64(t.Log.Milliseconds()), uint64(t.Held.Milliseconds())
	if f := t.Freeze; f != nil {
		m.Frozen = &logv1.Frozen{
			UntilMs: uint64(f.Until.Milliseconds()), SinceMs: session.MS(f.Since), By: f.By, Why: f.Why,
		}
	}
}

// timeFrom returns the clocks and the freeze in a snapshot's header.
func timeFrom(m *logv1.Header) (session.LogTime, error) {
	t := session.LogTime{
		Log:  time.Duration(min(m.GetClockMs(), maxClockMS)) * time.Millisecond,
		Held: time.Duration(min(m.GetHeldMs(), maxClockMS)) * time.Millisecond,
	}
	f := m.GetFrozen()
	switch {
	case m.GetClockMs() > maxClockMS || m.GetHeldMs() > maxClockMS-m.GetClockMs():
		return t, outOfRange("clock_ms and held_ms", "together below 2^43")
	case f == nil:
		return t, nil
	case f.GetUntilMs() <= m.GetClockMs()+m.GetHeldMs() || f.GetUntilMs() > maxClockMS:
		return t, outOfRange("frozen.until_ms", "after clock_ms + held_ms, and below 2^43")
	case f.GetSinceMs() > session.MaxMS:
		return t, outOfRange("frozen.since_ms", msLimit)
	}
	t.Freeze = &session.Freeze{
		Until: time.Duration(f.GetUntilMs()) * time.Millisecond, Since: session.TimeOfMS(f.GetSinceMs()), By: f.GetBy(),
		Why: f.GetWhy(),
	}
	return t, cmp.Or(noUnknownFields(f), checkAct(f.GetBy(), f.GetWhy()))
}

// takeKept takes what a session's record says of an extension.
func (r *restorer) takeKept(m *logv1.Session) error {
	switch {
	case m.GetKeptMs() == 0:
		return nil
	case m.GetKeptMs() > maxClockMS:
		return outOfRange("kept_ms", "below 2^43")
	case len(r.hanging.space.keeps.all) == session.MaxExtended:
		return errors.New("the file has too many sessions with kept_ms: at most " + strconv.Itoa(session.MaxExtended))
	}
	r.hanging.space.keep(kept{session.ID(m.GetId()), time.Duration(m.GetKeptMs()) * time.Millisecond})
	return nil
}
