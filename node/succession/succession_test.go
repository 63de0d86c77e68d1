package succession

import (
	"testing"
	"time"

	"holdfast/session"
)

// voters are those of the tests: node 1 leads term 5, and its connections have ended.
func facts(of func(*Facts)) Facts {
	f := Facts{
		Term: 5, Leader: 1, Follows: true, Last: func() Entry { return Entry{5, 100} }, Voters: []session.Node{1, 2, 3, 4, 5},
		Links: func(session.Node) Links { return Links{Opened: 3, Lost: true} },
	}
	if of != nil {
		of(&f)
	}
	return f
}

// links changes the leader's connections.
func links(l Links) func(*Facts) {
	return func(f *Facts) { f.Links = func(session.Node) Links { return l } }
}

// finding returns the machine of node 4 that finds node 1 gone, long after it has started.
func finding(t *testing.T, found Finding) *Machine {
	t.Helper()
	m := New(4, 0)
	m.Wake(epoch.Add(-time.Hour), facts(func(f *Facts) {
		f.Links = func(session.Node) Links { return Links{Open: 1, Opened: 3} }
	}))
	e := m.Wake(epoch, facts(nil))
	if e.Probe == nil || e.Probe.Leader != 1 || e.Probe.Term != 5 {
		t.Fatalf("the end of the connections: %+v, want a look", e)
	}
	m.Found(epoch, facts(nil), e.Probe.Number, found)
	return m
}

// wants is a question of node 3.
var wants = Question{Leader: 1, Term: 5, Last: Entry{5, 100}}

// TestF2Backs has node 3 ask node 4, with one thing changed.
func TestF2Backs(t *testing.T) {
	for name, tt := range map[string]struct {
		found  Finding
		change func(*Facts)
		from   session.Node
		q      Question
		backs  bool
	}{
		"refused":              {Refused, nil, 3, wants, true},
		"it does not lead":     {NotLeading, nil, 3, wants, true},
		"it leads":             {Leading, nil, 3, wants, false},
		"no answer yet":        {Unclear, nil, 3, wants, false},
		"a longer log":         {Refused, nil, 3, Question{1, 5, Entry{5, 101}}, true},
		"a shorter log":        {Refused, nil, 3, Question{1, 5, Entry{5, 99}}, false},
		"an older entry":       {Refused, nil, 3, Question{1, 5, Entry{4, 101}}, false},
		"another leader":       {Refused, nil, 3, Question{2, 5, Entry{5, 100}}, false},
		"it is no voter":       {Refused, nil, 6, wants, false},
		"itself":               {Refused, nil, 4, wants, false},
		"no voter itself":      {Refused, func(f *Facts) { f.Voters = []session.Node{1, 2, 3} }, 3, wants, false},
		"leads itself":         {Refused, func(f *Facts) { f.Follows, f.Leads = false, true }, 3, wants, false},
		"asks for pre-votes":   {Refused, func(f *Facts) { f.Follows, f.Leader = false, 0 }, 3, wants, true},
		"hears a leader":       {Refused, func(f *Facts) { f.Leader = 2 }, 3, wants, false},
		"forgot the leader":    {Refused, func(f *Facts) { f.Leader = 0 }, 3, wants, true},
		"has a new connection": {Refused, links(Links{1, 4, false}), 3, wants, false},
		"had a new connection": {Refused, links(Links{0, 4, true}), 3, wants, false},
	} {
		m := finding(t, tt.found)
		if got, _ := m.OnQuestion(epoch.Add(time.Millisecond), facts(tt.change), tt.from, tt.q); got != tt.backs {
			t.Errorf("%s: backs %v, want %v", name, got, tt.backs)
		}
	}
}

// TestF2OfAnotherTerm: a question is about one term.
func TestF2OfAnotherTerm(t *testing.T) {
	for _, term := range []uint64{4, 6} {
		q := wants
		q.Term = term
		if backs, _ := finding(t, Refused).OnQuestion(epoch, facts(nil), 3, q); backs {
			t.Errorf("backed in term %d, the node is in term 5", term)
		}
	}
}

// TestF1Silence: silence is evidence after 150 ms, unless this node has closed the connections or has heard no leader.
func TestF1Silence(t *testing.T) {
	m := finding(t, Unclear)
	for _, at := range []struct {
		after time.Duration
		backs bool
	}{{AnswerTimeout - 1, false}, {AnswerTimeout, true}} {
		if backs, _ := m.OnQuestion(epoch.Add(at.after), facts(nil), 3, wants); backs != at.backs {
			t.Errorf("after %v: backs %v", at.after, backs)
		}
	}
	closed := facts(func(f *Facts) { f.Links = func(session.Node) Links { return Links{Opened: 3} } })
	unheard := facts(func(f *Facts) { f.Leader = 0; f.Links = func(session.Node) Links { return Links{} } })
	for name, f := range map[string]Facts{"closed here": closed, "no leader heard": unheard} {
		m := New(4, 0)
		m.Wake(epoch.Add(-time.Hour), f)
		backs, e := m.OnQuestion(epoch, f, 3, wants)
		if backs || e.Probe == nil {
			t.Fatalf("%s: backs %v, looks %+v; want a look", name, backs, e.Probe)
		}
		m.Found(epoch, f, e.Probe.Number, Unclear)
		m.Wake(epoch.Add(AnswerTimeout), f)
		backs, e = m.OnQuestion(epoch.Add(AnswerTimeout), f, 3, wants)
		if backs || e.Probe == nil {
			t.Fatalf("%s: silence is taken for an end: backs %v, looks %+v", name, backs, e.Probe)
		}
		m.Found(epoch.Add(AnswerTimeout), f, e.Probe.Number, Refused)
		if backs, _ = m.OnQuestion(epoch.Add(AnswerTimeout), f, 3, wants); !backs {
			t.Errorf("%s: a refused connection is no evidence", name)
		}
	}
}

// TestF3Bound: a node that backs another backs no third one, and does not ask itself, for 500 ms.
func TestF3Bound(t *testing.T) {
	m := finding(t, Refused)
	third := func(after time.Duration) bool {
		backs, _ := m.OnQuestion(epoch.Add(after), facts(nil), 2, wants)
		return backs
	}
	if backs, e := m.OnQuestion(epoch, facts(nil), 3, wants); !backs || !e.Wake.Equal(epoch.Add(Bond)) {
		t.Fatalf("backs %v, wakes %v", backs, e.Wake)
	}
	if e := m.Wake(epoch.Add(Bond-1), facts(nil)); e.Canvass != nil || third(Bond-1) {
		t.Error("a bound node asks, or backs a third")
	}
	if backs, _ := m.OnQuestion(epoch.Add(Bond-1), facts(nil), 3, wants); !backs {
		t.Error("a bound node does not back the same node again")
	}
	if third(2*Bond-2) || !third(2*Bond-1) {
		t.Error("the second yes does not bind for 500 ms")
	}
	// A new term, and a new process.
	m = finding(t, Refused)
	next := facts(func(f *Facts) { f.Term, f.Leader = 6, 0 })
	q := wants
	q.Term = 6
	m.Wake(epoch, next)
	for after, want := range map[time.Duration]bool{Bond - 1: false, Bond: true} {
		c := *m
		if backs, _ := c.OnQuestion(epoch.Add(after), next, 3, q); backs != want {
			t.Errorf("%v after a new term: backs %v", after, backs)
		}
	}
}

// TestF3AStartBinds: a process that has just started may be bound to a voter that its former life backed.
func TestF3AStartBinds(t *testing.T) {
	unheard := facts(func(f *Facts) { f.Leader = 0; f.Links = func(session.Node) Links { return Links{} } })
	for after, want := range map[time.Duration]bool{Bond - 1: false, Bond: true} {
		m := New(4, 0)
		m.Wake(epoch, unheard)
		_, e := m.OnQuestion(epoch, unheard, 3, wants)
		m.Found(epoch, unheard, e.Probe.Number, Refused)
		if backs, _ := m.OnQuestion(epoch.Add(after), unheard, 3, wants); backs != want {
			t.Errorf("%v after a start: backs %v", after, backs)
		}
	}
}

// TestF3Yields: a node that asks yields to a better one. After that it heeds no answer, and does not ask. A node that
// was told to stand does not yield.
func TestF3Yields(t *testing.T) {
	begin := func() (*Machine, *Canvass) {
		m := finding(t, Refused)
		if e := m.Wake(epoch.Add(2*Turn-1), facts(nil)); e.Canvass != nil {
			t.Fatal("it asks before its turn: nodes 2 and 3 are first")
		}
		e := m.Wake(epoch.Add(2*Turn), facts(nil))
		if e.Canvass == nil || len(e.Canvass.Voters) != 4 || e.Canvass.Question != wants {
			t.Fatalf("in its turn: %+v", e.Canvass)
		}
		return m, e.Canvass
	}
	now := epoch.Add(2*Turn + time.Millisecond)
	m, _ := begin()
	if backs, _ := m.OnQuestion(now, facts(nil), 5, wants); backs {
		t.Error("it yields to a larger number")
	}
	longer := wants
	longer.Last.Index++
	if backs, _ := m.OnQuestion(now, facts(nil), 5, longer); !backs {
		t.Error("it does not yield to a longer log")
	}
	m, c := begin()
	m.Backed(now, facts(nil), c.Number, 2)
	if backs, _ := m.OnQuestion(now, facts(nil), 3, wants); !backs {
		t.Error("it does not yield to a smaller number")
	}
	if e := m.Backed(now, facts(nil), c.Number, 5); e.Campaign != nil {
		t.Error("it stands although it has yielded")
	}
	m, _ = begin()
	again := epoch.Add(2*Turn + firstRetry)
	if backs, e := m.OnQuestion(again, facts(nil), 3, wants); !backs || e.Canvass != nil {
		t.Errorf("asked as it is about to ask again: backs %v, asks %+v", backs, e.Canvass)
	}
	if backs, e := m.OnQuestion(again, facts(nil), 5, longer); backs || e.Canvass != nil {
		t.Errorf("after it has yielded: backs another %v, asks %+v", backs, e.Canvass)
	}
	m, _ = begin()
	if backs, e := m.OnQuestion(again, facts(nil), 5, wants); backs || e.Canvass == nil {
		t.Errorf("it does not ask again, because a larger number asks: backs %v", backs)
	}
	m, c = begin()
	m.Backed(now, facts(nil), c.Number, 2)
	e := m.Backed(now, facts(nil), c.Number, 5)
	if e.Campaign == nil || e.Campaign.Leader != 1 || e.Campaign.Term != 5 || len(e.Campaign.Backers) != 2 ||
		!e.Campaign.Current(facts(nil)) {
		t.Fatalf("with a majority: %+v", e.Campaign)
	}
	if backs, _ := m.OnQuestion(now, facts(nil), 2, longer); backs {
		t.Error("it yields although it stands")
	}
	for name, f := range map[string]Facts{
		"a new term":         facts(func(f *Facts) { f.Term = 6 }),
		"another leader":     facts(func(f *Facts) { f.Leader = 2 }),
		"no follower":        facts(func(f *Facts) { f.Follows = false }),
		"another connection": facts(links(Links{Opened: 4, Lost: true})),
	} {
		if e.Campaign.Current(f) {
			t.Errorf("%s: the reason to campaign is still there", name)
		}
	}
	// Raft has not moved: again after 500 ms.
	if e = m.Wake(now.Add(Bond-1), facts(nil)); e.Canvass != nil {
		t.Error("it asks again too soon")
	}
	if e = m.Wake(now.Add(Bond), facts(nil)); e.Canvass == nil {
		t.Error("it does not ask again")
	}
}

// TestF4AnswersCountFor250ms: of two answers that are needed, one comes too late.
func TestF4AnswersCountFor250ms(t *testing.T) {
	m := finding(t, Refused)
	first := m.Wake(epoch.Add(2*Turn), facts(nil)).Canvass
	asked := epoch.Add(2 * Turn)
	m.Backed(asked, facts(nil), first.Number, 2)
	c := *m
	c.run.backed = map[session.Node]time.Time{2: m.run.backed[2]}
	if e := c.Backed(asked.Add(counts-1), facts(nil), first.Number, 3); e.Campaign == nil {
		t.Error("answers of the last 250 ms do not count")
	}
	if e := m.Backed(asked.Add(counts), facts(nil), first.Number, 3); e.Campaign != nil {
		t.Error("answers to older questions count")
	}
}

// TestF4EndsAfterASecond: a voter that nobody backs asks again and again, ever more rarely, and stops.
func TestF4EndsAfterASecond(t *testing.T) {
	m := finding(t, Refused)
	now, times := epoch, []time.Duration{}
	e := m.Wake(now, facts(nil))
	for range 100 {
		if e.Canvass != nil {
			times = append(times, now.Sub(epoch))
		}
		if e.Wake.IsZero() {
			break
		}
		now = e.Wake
		e = m.Wake(now, facts(nil))
	}
	if len(times) < 8 || len(times) > 12 || times[0] != 2*Turn || times[1] != 2*Turn+firstRetry ||
		times[len(times)-1] >= Span || !e.Wake.IsZero() {
		t.Errorf("asked at %v, next %v", times, e.Wake)
	}
	if backs, _ := m.OnQuestion(now.Add(time.Hour), facts(nil), 3, wants); !backs {
		t.Error("it backs nobody after that")
	}
}

// TestALeaderThatSteppedDown backs others, and says that it leads no more.
func TestALeaderThatSteppedDown(t *testing.T) {
	m := New(1, 0)
	leads := facts(func(f *Facts) { f.Leads, f.Follows = true, false })
	m.Wake(epoch.Add(-time.Hour), leads)
	if backs, _ := m.OnQuestion(epoch, leads, 3, wants); backs || !Leads(leads, 5) || !Leads(leads, 4) || Leads(leads, 6) {
		t.Error("a leader backs another, or denies that it leads")
	}
	stepped := facts(func(f *Facts) { f.Leader = 0 })
	if backs, _ := m.OnQuestion(epoch, stepped, 3, wants); !backs || Leads(stepped, 5) {
		t.Error("a leader that stepped down backs nobody, or says that it leads")
	}
	if e := m.Wake(epoch.Add(time.Hour), stepped); e.Probe != nil || e.Canvass != nil {
		t.Error("it looks after itself")
	}
}

// TestAnAttemptThatHasEndedWakesNobody: a voter that finds the leader gone for longer than it tries to stand, or that
// may not stand, has nothing due, and asks for no moment that has come.
func TestAnAttemptThatHasEndedWakesNobody(t *testing.T) {
	for name, change := range map[string]func(*Facts){
		"the time is over": nil,
		"asks for votes":   func(f *Facts) { f.Follows = false },
		"no voter":         func(f *Facts) { f.Voters = []session.Node{1, 2, 3} },
	} {
		m, f := finding(t, Refused), facts(change)
		for _, after := range []time.Duration{0, Bond, Span - 1, Span, Span + Bond, time.Minute} {
			now := epoch.Add(after)
			for range 10 { // each wake may have something to do, and then nothing is due at once
				if wake := m.Wake(now, f).Wake; wake.IsZero() || wake.After(now) {
					break
				}
			}
			if wake := m.Wake(now, f).Wake; !wake.IsZero() && !wake.After(now) {
				t.Errorf("%s, after %v: wants to be woken at %v", name, after, wake.Sub(epoch))
			}
		}
	}
}
