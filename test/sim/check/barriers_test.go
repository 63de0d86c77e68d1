package check

import (
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// delays is a lock whose holder, session 9, expires at 38 s with a lock-delay of two seconds; session 10 is next.
func (s *site) delays() {
	lock := tree.Create{Path: "/m/lock-1", Kind: tree.Ephemeral, LockDelay: 2 * time.Second, Parents: true}
	s.log = append(s.log, logged{index: 37, owner: 9, ops: []tree.Op{lock}}, logged{index: 38, owner: 9, ends: true},
		logged{index: 39, owner: 10, ops: []tree.Op{made(tree.Ephemeral, "/m/lock-2", "")}},
		logged{index: 40, owner: 10, ops: []tree.Op{gone("/m/lock-1")}})
	s.claim("holder", history.Granted, 37.4, 9, history.Claim{
		Name: "q1/1", Recipe: Lock, Path: "/m", Token: tree.StampAt(37, 1), LockDelay: 2 * time.Second,
	})
	s.claim("next", history.Granted, 40.4, 10, history.Claim{
		Name: "q1/2", Recipe: Lock, Path: "/m", Token: tree.StampAt(39, 1),
	})
}

// barrier is a barrier: session 7 raises it, 8 lowers and raises it again, and 7 lowers it for good.
func (s *site) barrier() {
	raised, lowered := made(tree.Persistent, "/gate", ""), gone("/gate")
	s.log = append(s.log, logged{index: 41, owner: 7, ops: []tree.Op{raised}},
		logged{index: 42, owner: 8, ops: []tree.Op{lowered}}, logged{index: 43, owner: 8, ops: []tree.Op{raised}},
		logged{index: 44, owner: 7, ops: []tree.Op{lowered}})
	s.use("raise", 41.4, "q1", 7, history.Use{Path: "/gate", Verb: Raise})
	s.use("lower", 42.4, "q2", 8, history.Use{Path: "/gate", Verb: Lower})
	s.use("raise again", 43.4, "q2", 8, history.Use{Path: "/gate", Verb: Raise})
	s.use("wait", 42.6, "q1", 7, history.Use{Path: "/gate", Verb: Wait}).Sent = at(41.5)
	s.use("wait again", 44.3, "q2", 8, history.Use{Path: "/gate", Verb: Wait}).Sent = at(43.5)
}

// doubleBarrier is a double barrier for two: session 7 enters and 8 after it, and they leave in the same order.
func (s *site) doubleBarrier() {
	s.log = append(s.log,
		logged{index: 45, owner: 7, ops: []tree.Op{made(tree.Ephemeral, "/meet/inside/member-1", "q1/3")}},
		logged{index: 46, owner: 8, ops: []tree.Op{
			made(tree.Ephemeral, "/meet/inside/member-2", "q2/4"), tree.Set{Path: "/meet/inside", Version: tree.Any},
		}},
		logged{index: 47, owner: 7, ops: []tree.Op{gone("/meet/inside/member-1")}},
		logged{index: 48, owner: 8, ops: []tree.Op{gone("/meet/inside/member-2")}},
		logged{index: 49, owner: 8, ops: []tree.Op{gone("/meet/inside")}})
	s.use("enter 1", 46.4, "q1", 7, history.Use{Path: "/meet", Verb: Enter, Data: "q1/3", Number: 2})
	s.use("enter 2", 46.4, "q2", 8, history.Use{Path: "/meet", Verb: Enter, Data: "q2/4", Number: 2})
	s.use("leave 1", 48.4, "q1", 7, history.Use{Path: "/meet", Verb: Leave, Data: "q1/3"})
	s.use("leave 2", 49.4, "q2", 8, history.Use{Path: "/meet", Verb: Leave, Data: "q2/4"})
}

func brokenDelays() []brokenUse {
	return []brokenUse{
		{"no lock-delay", "lock-delay", func(s *site) { s.claims["next"].At = at(39.4) }},
		{"a lock-delay that counts by another clock", "lock-delay", func(s *site) { s.claims["next"].At = at(39.9) }},
		{"a log clock that is stopped", "lock-delay", func(s *site) { s.claims["holder"].Claim.LockDelay = time.Hour }},
		{"a lock-delay that is over late", "lock-delay", overAt(50)},
		{"a lock-delay that is never over", "lock-delay", func(s *site) { s.drop(40); s.claims["next"] = nil }},
	}
}

// overAt ends the lock-delay in the entry at an index.
func overAt(index uint64) func(s *site) {
	return func(s *site) {
		s.entry(40).index = index
		s.claims["next"].At = at(float64(index) + 0.4)
	}
}

func brokenGates() []brokenUse {
	return []brokenUse{
		{"raised, and not in the log", "barrier", func(s *site) { s.drop(41); s.drop(42) }},
		{"lowered, and not in the log", "barrier", func(s *site) { s.drop(42); s.drop(43); s.drop(44) }},
		{"raised later", "barrier", func(s *site) { s.used["raise"].At = at(40.9) }},
		{"lowered later", "barrier", func(s *site) {
			s.drop(43)
			s.drop(44)
			s.entry(42).index, s.used["raise again"] = 44, nil
			s.used["wait"], s.used["wait again"] = nil, nil
		}},
		{"let go before the lowering", "barrier", func(s *site) { s.used["wait"].At = at(41.8) }},
		{"let go at a barrier that its own session raised", "barrier", func(s *site) { s.used["wait again"].At = at(43.8) }},
		{"not let go", "barrier", func(s *site) { s.used["wait again"].At = at(45.5) }},
		{"given up, though it was lowered", "barrier", func(s *site) {
			s.used["wait again"].At, s.used["wait again"].Text = at(45.5), "context deadline exceeded"
		}},
	}
}

func brokenMeetings() []brokenUse {
	return []brokenUse{
		{"in alone", "double barrier", func(s *site) { s.drop(46); s.drop(48) }},
		{"in before all are", "double barrier", func(s *site) { s.used["enter 1"].At = at(45.6) }},
		{"in without the one who gave up", "double barrier", func(s *site) {
			s.log = append(s.log, logged{index: 45, owner: 7, ops: []tree.Op{gone("/meet/inside/member-1")}})
			s.drop(47)
		}},
		{"one too many", "double barrier", func(s *site) {
			s.log = append(s.log,
				logged{index: 45, owner: 9, ops: []tree.Op{made(tree.Ephemeral, "/meet/inside/member-3", "q3/5")}},
				logged{index: 48, owner: 9, ops: []tree.Op{gone("/meet/inside/member-3")}})
		}},
		{"one who came too late", "double barrier", func(s *site) {
			s.log = append(s.log,
				logged{index: 46, owner: 9, ops: []tree.Op{made(tree.Ephemeral, "/meet/inside/member-3", "q3/5")}},
				logged{index: 48, owner: 9, ops: []tree.Op{gone("/meet/inside/member-3")}})
			s.use("enter 3", 46.6, "q3", 9, history.Use{Path: "/meet", Verb: Enter, Data: "q3/5", Number: 2})
		}},
		{"the entry of another session", "double barrier", func(s *site) { s.used["enter 1"].ID = 8 }},
		{"left before the other", "double barrier", func(s *site) { s.used["leave 1"].At = at(47.4) }},
		{"left, and the other never", "double barrier", func(s *site) { s.drop(48); s.drop(49) }},
	}
}

// TestUsesInDoubt: what looks wrong has a reason.
func TestUsesInDoubt(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(s *site)
	}{
		{"no lock-delay, because the lock was given up", func(s *site) {
			s.claims["next"].At = at(39.4)
			s.claim("ceded", history.Released, 38.2, 9, history.Claim{Name: "q1/1", Recipe: Lock, Path: "/m"})
		}},
		{"no lock-delay, because a client broke the lock", func(s *site) {
			s.claims["next"].At = at(39.4)
			s.claim("broke", history.Broke, 39.2, 3, history.Claim{Name: "q1/1", Path: "/m", Token: tree.StampAt(37, 1)})
		}},
		{"a lock-delay that is over late, because the log clock was stopped", func(s *site) {
			overAt(50)(s)
			s.used["frost"] = &history.Event{
				At: at(38.5), Kind: history.FreezeBegan, Who: "n1", Index: 38, Timeout: time.Minute, Until: at(98),
			}
			s.used["thaw"] = &history.Event{At: at(48.5), Kind: history.Thawed, Who: "n1", Index: 48}
		}},
		{"a lock-delay that is over late, because of a fault", func(s *site) {
			overAt(50)(s)
			s.used["fault"] = &history.Event{At: at(38.5), Kind: history.FaultBegan, Who: "n1", Text: "gone"}
			s.used["mended"] = &history.Event{At: at(48), Kind: history.FaultEnded, Who: "n1", Text: "gone"}
			s.used["healed"] = &history.Event{At: at(48), Kind: history.Healed}
		}},
		{"let go late, because the process was frozen", func(s *site) {
			s.used["wait again"].At = at(45.5)
			s.used["froze"] = &history.Event{At: at(45.4), Sent: at(44.1), Kind: history.Froze, Who: "q2", ID: session.ID(8)}
		}},
		{"let go late, because it was raised again at once", func(s *site) {
			s.used["wait again"].At = at(48.5)
			s.log = append(s.log, logged{index: 44, owner: 9, ops: []tree.Op{made(tree.Persistent, "/gate", "")}},
				logged{index: 48, owner: 9, ops: []tree.Op{gone("/gate")}})
		}},
	} {
		s := newSite()
		c.plant(s)
		if r := s.judge(t); len(r.Violations) > 0 {
			t.Errorf("%s: %v", c.name, r.Violations)
		}
	}
}
