package check

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/model/plain"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// logged is a write of the log: the index of its entry is also its moment in seconds.
type logged struct {
	index uint64
	owner session.ID
	ops   []tree.Op
	// ends reports that instead the session of the owner expires.
	ends bool
}

// site is a log, with clients' calls of recipes and their answers.
type site struct {
	log []logged
	// claims and used have names, so that a test can break them.
	claims, used map[string]*history.Event
}

func made(kind tree.Kind, path, data string) tree.Op {
	return tree.Create{Path: path, Kind: kind, Data: []byte(data), Parents: true}
}

func gone(path string) tree.Op { return tree.Delete{Path: path, Version: tree.Any} }

// use adds a call that took half a second.
func (s *site) use(name string, seconds float64, who string, id session.ID, u history.Use) *history.Event {
	e := &history.Event{
		At: at(seconds), Sent: at(seconds - 0.5), Kind: history.Used, Who: who, ID: id, Use: &u,
	}
	s.used[name] = e
	return e
}

// claim adds an event about a claim.
func (s *site) claim(name string, k history.Kind, seconds float64, id session.ID, c history.Claim) {
	s.claims[name] = &history.Event{At: at(seconds), Kind: k, Who: "q1", ID: id, Claim: &c}
}

// jobs is a queue in which nothing is wrong: session 1 claims an item and ends, session 2 finishes the item.
func (s *site) jobs() {
	item, claim := "/q/items/item-1", "/q/claims/item-1"
	s.log = append(s.log, logged{index: 11, owner: 1, ops: []tree.Op{made(tree.Persistent, item, "job 1")}},
		logged{index: 12, owner: 1, ops: []tree.Op{made(tree.Persistent, "/q/items/item-2", "job 2")}},
		logged{index: 13, owner: 1, ops: []tree.Op{made(tree.Ephemeral, claim, "")}}, logged{index: 14, owner: 1, ends: true},
		logged{index: 15, owner: 2, ops: []tree.Op{made(tree.Ephemeral, claim, "")}},
		logged{index: 16, owner: 2, ops: []tree.Op{gone(item), gone(claim)}})
	s.use("put 1", 11.4, "q1", 1, history.Use{Path: "/q", Verb: Put, Data: "job 1"})
	s.use("put 2", 12.4, "q1", 1, history.Use{Path: "/q", Verb: Put, Data: "job 2"})
	s.use("put 3", 12.4, "q1", 1, history.Use{Path: "/q", Verb: Put, Data: "job 3"}).Text = "refused"
	s.use("finish", 16.4, "q2", 2, history.Use{Path: "/q", Verb: Finish, Data: "job 1", Token: tree.StampAt(15, 1)})
	s.claim("claim 1", history.Granted, 13.4, 1, history.Claim{
		Recipe: Item, Path: claim, Data: "job 1", Token: tree.StampAt(13, 1),
	})
	s.claim("claim 2", history.Granted, 15.4, 2, history.Claim{
		Recipe: Item, Path: claim, Data: "job 1", Token: tree.StampAt(15, 1),
	})
}

// errands are the job of a key, which session 2 does, and session 3 learns the result.
func (s *site) errands() {
	s.log = append(s.log, logged{index: 21, owner: 2, ops: []tree.Op{made(tree.Persistent, "/o/7/done", "result")}})
	s.claim("work", history.Works, 20.8, 2, history.Claim{Recipe: Once, Path: "/o/7", Token: tree.StampAt(20, 1)})
	s.use("first", 21.4, "q2", 2, history.Use{Path: "/o/7", Verb: Do, Data: "result", First: true})
	s.use("second", 21.6, "q3", 3, history.Use{Path: "/o/7", Verb: Do, Data: "result"})
}

// sums are a counter: 5 and 7 are added, and 9 by a call that was not answered.
func (s *site) sums() {
	s.log = append(s.log, logged{index: 23, owner: 2, ops: []tree.Op{made(tree.Persistent, "/c", "5")}},
		logged{index: 24, owner: 3, ops: []tree.Op{tree.Set{Path: "/c", Version: tree.Any, Data: []byte("12")}}},
		logged{index: 25, owner: 3, ops: []tree.Op{tree.Set{Path: "/c", Version: tree.Any, Data: []byte("21")}}})
	s.use("add 5", 23.4, "q2", 2, history.Use{Path: "/c", Verb: Add, Number: 5, Sum: 5})
	s.use("add 7", 24.4, "q3", 3, history.Use{Path: "/c", Verb: Add, Number: 7, Sum: 12})
	lost := s.use("add 9", 25.4, "q3", 3, history.Use{Path: "/c", Verb: Add, Number: 9})
	lost.Text, lost.Unknown = "lost", true
	s.use("add 11", 25.4, "q3", 3, history.Use{Path: "/c", Verb: Add, Number: 11}).Text = "refused"
	s.use("read", 26, "q2", 2, history.Use{Path: "/c", Verb: Read, Sum: 21})
}

// members are a group: session 4 joins and ends, sessions 5 and 6 join. The view of session 6 begins when 4 has gone.
func (s *site) members() {
	member := func(id, says string) string { return `{"address":"` + says + `","health":"passing"}` }
	s.log = append(s.log,
		logged{index: 31, owner: 4, ops: []tree.Op{made(tree.Ephemeral, "/g/q1", member("q1", "one"))}},
		logged{index: 32, owner: 5, ops: []tree.Op{made(tree.Ephemeral, "/g/q2", member("q2", "two"))}},
		logged{index: 33, owner: 4, ends: true},
		logged{index: 35, owner: 6, ops: []tree.Op{made(tree.Ephemeral, "/g/q3", member("q3", "three"))}},
		logged{index: 36, owner: 5, ops: []tree.Op{
			tree.Set{Path: "/g/q2", Version: tree.Any, Data: []byte(member("q2", "more"))},
		}})
	one := history.Member{ID: "q1", Address: "one", Session: 4, Token: tree.StampAt(31, 1)}
	two := history.Member{ID: "q2", Address: "two", Session: 5, Token: tree.StampAt(32, 1)}
	three := history.Member{ID: "q3", Address: "three", Session: 6, Token: tree.StampAt(35, 1)}
	s.use("join", 32.4, "q2", 5, history.Use{Path: "/g", Verb: Join, Data: "two"})
	s.use("set", 36.4, "q2", 5, history.Use{Path: "/g", Verb: Set, Data: "more"})
	s.use("view 1", 32.6, "q2", 5, history.Use{Path: "/g", Verb: View, View: "a", Members: []history.Member{one, two}})
	s.use("view 2", 34, "q2", 5, history.Use{Path: "/g", Verb: View, View: "a", Members: []history.Member{two}})
	s.use("view 3", 35.6, "q3", 6, history.Use{Path: "/g", Verb: View, View: "b", Members: []history.Member{two, three}})
	two.Address = "more"
	s.use("at last", 60, "q3", 6, history.Use{
		Path: "/g", Verb: LastView, View: "b", Members: []history.Member{two, three},
	})
}

func newSite() *site {
	s := &site{claims: make(map[string]*history.Event), used: make(map[string]*history.Event)}
	s.jobs()
	s.errands()
	s.sums()
	s.members()
	s.delays()
	s.barrier()
	s.doubleBarrier()
	s.use("owes", 40, "q2", 2, history.Use{Path: "/q", Verb: ExpectTurn})
	s.use("last", 60, "q2", 2, history.Use{Path: "/q", Verb: LastTurn})
	return s
}

// judge returns what the judge of uses says.
func (s *site) judge(t *testing.T) Result {
	t.Helper()
	v := &verdict{Result: Result{Checked: make(map[string]int)}}
	b := bounds()
	b.Turn, b.Reap = 30*time.Second, time.Second
	j := judge{newFacts(b), v}
	h := []history.Event{
		{At: at(30), Kind: history.AppliedOpen, Who: "n1", ID: 5, Index: 30},
		{At: at(34), Kind: history.AppliedOpen, Who: "n1", ID: 6, Index: 34},
		{At: at(38), Kind: history.AppliedEnd, Who: "n1", ID: 9, Index: 38, Cause: session.CauseExpired},
		{At: at(80), Kind: history.Finished},
	}
	for _, all := range []map[string]*history.Event{s.claims, s.used} {
		for _, e := range all {
			if e != nil {
				h = append(h, *e)
			}
		}
	}
	slices.SortStableFunc(h, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	for _, e := range h {
		j.note(e, v)
	}
	now, past, known := plain.New(0), newTreeStates(), make(times)
	past.record(now, 0)
	slices.SortStableFunc(s.log, func(a, b logged) int { return cmp.Compare(a.index, b.index) })
	for _, d := range s.log {
		when := moment{at(float64(d.index)), at(float64(d.index))}
		stamp := plain.At{Stamp: tree.StampAt(d.index, 1), Clock: when.clock, Session: uint64(d.owner)}
		if d.ends {
			now.End(stamp, uint64(d.owner), true, nil)
		} else if outcome, _ := now.Do(stamp, tree.Transaction{Then: d.ops}); outcome.Refused != nil {
			t.Fatalf("the log at %d: %v", d.index, outcome.Refused)
		}
		past.record(now, stamp.Stamp)
		known[d.index] = when
	}
	uses{j, past, known}.check()
	return v.Result
}

// TestUses breaks the history in one way after the other.
func TestUses(t *testing.T) {
	r := newSite().judge(t)
	if len(r.Violations) > 0 {
		t.Fatalf("a history in which nothing is wrong: %v", r.Violations)
	}
	for _, name := range append(workersNames(), "barrier received", "lock-delay", "lock-delay over") {
		if r.Checked[name] == 0 {
			t.Errorf("%s is not put to the test", name)
		}
	}
	for _, c := range brokenUses() {
		s := newSite()
		c.plant(s)
		found := false
		for _, v := range s.judge(t).Violations {
			found = found || v.Invariant == c.invariant
		}
		if !found {
			t.Errorf("%s: no violation of %s", c.name, c.invariant)
		}
	}
}

// planted is a way to break a site.
type brokenUse struct {
	name, invariant string
	plant           func(s *site)
}

// entry returns the write of the log at an index.
func (s *site) entry(index uint64) *logged {
	return &s.log[slices.IndexFunc(s.log, func(d logged) bool { return d.index == index })]
}

// drop removes the write at an index from the log.
func (s *site) drop(index uint64) {
	s.log = slices.DeleteFunc(s.log, func(d logged) bool { return d.index == index })
}

func brokenUses() []brokenUse {
	return slices.Concat(brokenJobs(), brokenErrands(), brokenSums(), brokenMembers(), brokenDelays(), brokenGates(),
		brokenMeetings(), []brokenUse{
			{"no last turn", "liveness", func(s *site) { s.used["last"] = nil }},
			{"a late last turn", "liveness", func(s *site) { s.used["last"].At = at(71) }},
			{"the last turn of another", "liveness", func(s *site) { s.used["last"].Who = "q3" }},
		})
}

func brokenJobs() []brokenUse {
	return []brokenUse{
		{"an item is lost on its way", "queue", func(s *site) { s.drop(12) }},
		{"an item is there twice", "queue", func(s *site) {
			s.log = append(s.log, logged{index: 50, owner: 1, ops: []tree.Op{made(tree.Persistent, "/q/items/item-9", "job 2")}})
		}},
		{"an item that was refused is there", "queue", func(s *site) {
			s.entry(12).ops = append(s.entry(12).ops, made(tree.Persistent, "/q/items/item-9", "job 3"))
		}},
		{"an item goes without a worker", "queue", func(s *site) {
			s.log = append(s.log, logged{index: 50, owner: 1, ops: []tree.Op{gone("/q/items/item-2")}})
		}},
		{"an item goes, and its claim later", "queue", func(s *site) {
			s.entry(16).ops = s.entry(16).ops[:1]
			s.used["finish"] = nil
			s.log = append(s.log, logged{index: 50, owner: 2, ops: []tree.Op{gone("/q/claims/item-1")}})
		}},
		{"an item stays that was finished", "queue", func(s *site) { s.drop(16) }},
		{"finished by one who had it before", "queue", func(s *site) {
			s.used["finish"].Use.Token = tree.StampAt(13, 1)
		}},
		{"finished twice", "queue", func(s *site) {
			s.use("again", 16.8, "q1", 1, history.Use{Path: "/q", Verb: Finish, Data: "job 1", Token: tree.StampAt(13, 1)})
		}},
		{"a claim that the log does not have", "queue", func(s *site) {
			s.claims["claim 2"].Claim.Token = tree.StampAt(16, 1)
		}},
		{"a claim of another session", "queue", func(s *site) { s.claims["claim 2"].ID = 3 }},
		{"a claim with the data of another item", "queue", func(s *site) { s.claims["claim 1"].Claim.Data = "job 2" }},
		{"a claim of an item that is gone", "queue", func(s *site) {
			s.log = append(s.log, logged{index: 50, owner: 3, ops: []tree.Op{made(tree.Ephemeral, "/q/claims/item-1", "")}})
			s.claim("claim 3", history.Granted, 50.4, 3, history.Claim{
				Recipe: Item, Path: "/q/claims/item-1", Data: "job 1", Token: tree.StampAt(50, 1),
			})
		}},
	}
}

func brokenErrands() []brokenUse {
	return []brokenUse{
		{"a result that is not kept", "once", func(s *site) { s.drop(21) }},
		{"a result that is replaced", "once", func(s *site) {
			s.log = append(s.log, logged{index: 50, owner: 3, ops: []tree.Op{
				tree.Set{Path: "/o/7/done", Version: tree.Any, Data: []byte("another")},
			}})
		}},
		{"a result that goes", "once", func(s *site) {
			s.log = append(s.log, logged{index: 50, owner: 3, ops: []tree.Op{gone("/o/7/done")}})
		}},
		{"another result is returned", "once", func(s *site) { s.used["second"].Use.Data = "another" }},
		{"two are first", "once", func(s *site) { s.used["second"].Use.First = true }},
		{"work on what is done", "once", func(s *site) { s.claims["work"].At = at(21.5) }},
	}
}

func brokenSums() []brokenUse {
	return []brokenUse{
		{"an addition is lost", "counter", func(s *site) {
			s.entry(24).ops[0] = tree.Set{Path: "/c", Version: tree.Any, Data: []byte("5")}
			s.entry(25).ops[0] = tree.Set{Path: "/c", Version: tree.Any, Data: []byte("14")}
		}},
		{"an addition counts twice", "counter", func(s *site) {
			s.entry(25).ops[0] = tree.Set{Path: "/c", Version: tree.Any, Data: []byte("19")}
			s.used["add 9"], s.used["read"] = nil, nil
		}},
		{"one whose outcome is unknown counts twice", "counter", func(s *site) {
			s.log = append(s.log, logged{index: 50, owner: 3, ops: []tree.Op{
				tree.Set{Path: "/c", Version: tree.Any, Data: []byte("30")},
			}})
		}},
		{"another sum is returned", "counter", func(s *site) { s.used["add 7"].Use.Sum = 7 }},
		{"an addition that was refused counts", "counter", func(s *site) { s.used["add 9"].Unknown = false }},
		{"an addition of no client", "counter", func(s *site) { s.used["add 9"] = nil }},
		{"it counts before it is called", "counter", func(s *site) { s.used["add 7"].Sent = at(24.2) }},
		{"no number", "counter", func(s *site) {
			s.log = append(s.log, logged{index: 50, owner: 3, ops: []tree.Op{
				tree.Set{Path: "/c", Version: tree.Any, Data: []byte("many")},
			}})
		}},
		{"a number that never was", "counter", func(s *site) { s.used["read"].Use.Sum = 22 }},
		{"an old number is read", "counter", func(s *site) { s.used["read"].Use.Sum = 5 }},
	}
}

func brokenMembers() []brokenUse {
	return []brokenUse{
		{"no such member", "group", func(s *site) { s.used["join"].ID = 6 }},
		{"it never said so", "group", func(s *site) { s.used["set"].Use.Data = "less" }},
		{"it is not yet a member", "group", func(s *site) { s.used["join"].At = at(31.5) }},
		{"a view shows another session", "group", func(s *site) { s.used["view 1"].Use.Members[0].Session = 5 }},
		{"a view shows another id", "group", func(s *site) { s.used["view 1"].Use.Members[0].ID = "q2" }},
		{"a view shows data that no member set", "group", func(s *site) { s.used["view 1"].Use.Members[0].Address = "two" }},
		{"a member is back", "group", func(s *site) {
			s.use("view 4", 35, "q2", 5, history.Use{
				Path: "/g", Verb: View, View: "a", Members: s.used["view 1"].Use.Members,
			})
		}},
		{"a view shows a member whose session ended before", "group", func(s *site) {
			u := s.used["view 3"].Use
			u.Members = append(u.Members, s.used["view 1"].Use.Members[0])
		}},
		{"a dead member at last", "group", func(s *site) {
			u := s.used["at last"].Use
			u.Members = append(u.Members, s.used["view 1"].Use.Members[0])
		}},
		{"a living member is missing at last", "group", func(s *site) {
			s.used["at last"].Use.Members = s.used["at last"].Use.Members[1:]
		}},
	}
}
