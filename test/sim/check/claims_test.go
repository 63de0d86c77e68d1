package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// claimed returns an event about a claim, whose name begins with its client. Its token's index is also its session.
func claimed(k history.Kind, seconds float64, name, recipe string, token uint64) history.Event {
	c := &history.Claim{Name: name, Recipe: recipe, Path: "/" + recipe}
	who, call, _ := strings.Cut(name, "/")
	if strings.HasPrefix(call, "b") {
		c.Path = "/book"
	}
	if token != 0 {
		c.Token = tree.StampAt(token, 1)
	}
	return history.Event{At: at(seconds), Kind: k, Who: who, ID: session.ID(token), Claim: c}
}

// held returns the events of a grant: request, grant and work until its context ends, and release. Moments are those of
// the first three.
func held(name, recipe string, token uint64, moments [3]float64) []history.Event {
	sent, granted, rests := moments[0], moments[1], moments[2]
	return []history.Event{
		claimed(history.Awaits, sent, name, recipe, 0), claimed(history.Granted, granted, name, recipe, token),
		claimed(history.Works, granted, name+".1", recipe, token),
		claimed(history.Rests, rests, name+".1", recipe, token),
		claimed(history.Released, rests+0.1, name, recipe, token),
	}
}

// contest is a correct history of claims: three clients hold a lock one after the other, two read a book before a third
// writes to it, and three share two permits.
func contest() map[string][]history.Event {
	vouched := func(seconds float64) history.Event {
		e := claimed(history.FenceChecked, seconds, "p1/m1", Lock, 10)
		e.Sent, e.Claim.Holds = e.At-at(0.2), seconds < 13
		return e
	}
	fenced := claimed(history.Fenced, 14.5, "p1/m1", Lock, 10)
	fenced.Claim.Newest = tree.StampAt(13, 1)
	lined := history.Event{At: at(45), Kind: history.QueueRead, Who: "p1", Claim: &history.Claim{Path: "/" + Lock}}
	forgone := claimed(history.GaveUp, 17, "p3/m3", Lock, 0)
	forgone.Text = "context deadline exceeded"
	waiter := claimed(history.GaveUp, 27.5, "p3/o3", Election, 0)
	waiter.Text, waiter.Unknown, waiter.Claim.Broken = "entry was removed", true, true
	broke := func(name string, token uint64, seconds float64) history.Event {
		return history.Event{
			At: at(seconds), Sent: at(seconds - 0.2), Kind: history.Broke, Who: "p4",
			Claim: &history.Claim{Name: name, Path: "/" + Election, Token: tree.StampAt(token, 1)},
		}
	}
	h := map[string][]history.Event{
		"m1": held("p1/m1", Lock, 10, [3]float64{10, 10.5, 13}),
		"m2": held("p2/m2", Lock, 13, [3]float64{11, 13.2, 20}),
		"m3": {claimed(history.Awaits, 16, "p3/m3", Lock, 0), forgone},
		"m4": held("p3/m4", Lock, 17, [3]float64{18, 31, 32}), "m5": held("p1/m5", Lock, 18, [3]float64{19, 33, 34}),
		"m6": held("p2/m6", Lock, 20, [3]float64{20.5, 35, 36}),
		"b1": held("p1/b1", ReadLock, 12, [3]float64{10, 12, 15}),
		"b2": held("p2/b2", ReadLock, 14, [3]float64{11, 12.5, 15}),
		"b3": held("p3/b3", Lock, 16, [3]float64{11.5, 15.2, 17}),
		"s1": held("p1/s1", Semaphore, 22, [3]float64{21, 22, 25}),
		"s2": held("p2/s2", Semaphore, 21, [3]float64{21, 23, 26}),
		"s3": held("p3/s3", Semaphore, 23, [3]float64{21, 25, 28}),
		"stored": {
			claimed(history.Stored, 11, "p1/m1", Lock, 10), claimed(history.Stored, 14, "p2/m2", Lock, 13), fenced,
		},
		"vouched": {vouched(12), vouched(13.5), vouched(14)},
		"lined":   {lined},
		"o1":      held("p1/o1", Election, 25, [3]float64{25, 25.5, 27.3}), // broken at 27
		"o2":      held("p2/o2", Election, 26, [3]float64{26, 27.1, 28}),
		"o3":      {claimed(history.Awaits, 26, "p3/o3", Election, 0), waiter},
		"o4":      held("p3/o4", Election, 28, [3]float64{27.6, 28.3, 29}),
		"broke":   {broke("p1/o1", 25, 27), broke("p3/o3", 27, 27)},
		"healed":  {{At: at(9), Kind: history.Healed}, {At: at(80), Kind: history.Finished}},
	}
	h["o1"][4].Text, h["o1"][4].Claim.Broken = "entry was removed", true // Released
	return h
}

// judgeClaims returns what the judge of claims says.
func judgeClaims(parts map[string][]history.Event) Result {
	v := &verdict{Result: Result{Checked: make(map[string]int)}}
	b := bounds()
	b.Turn = 30 * time.Second
	j := judge{newFacts(b), v}
	var h []history.Event
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		h = append(h, parts[name]...)
	}
	slices.SortStableFunc(h, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	for _, e := range h {
		j.note(e, v)
	}
	claims{j}.check()
	return v.Result
}

// TestClaims breaks the history in one way after the other.
func TestClaims(t *testing.T) {
	r := judgeClaims(contest())
	if len(r.Violations) > 0 {
		t.Fatalf("a history in which nothing is wrong: %v", r.Violations)
	}
	for _, name := range []string{
		"I15 alone", "I15 readers", "I15 permits", "I15 tokens", "I15 stored", "I15 late", "I15 holds", "I15 held",
		"forgone", "turn", "line", "broken reported", "broken ceded", "broken beside",
	} {
		if r.Checked[name] == 0 {
			t.Errorf("%s is not put to the test", name)
		}
	}
	// The places of events in held.
	const sent, granted, works, rests, cedes = 0, 1, 2, 3, 4
	for _, c := range []struct {
		name, invariant string
		plant           func(h map[string][]history.Event)
	}{
		{"two hold a lock", "I15", func(h map[string][]history.Event) { h["m1"][rests].At = at(13.3) }},
		{"a context that never ends", "I15", func(h map[string][]history.Event) { h["m1"] = h["m1"][:rests] }},
		{"a writer beside readers", "I15", func(h map[string][]history.Event) { h["b3"][works].At = at(14.9) }},
		{"a reader beside a writer", "I15", func(h map[string][]history.Event) { h["b2"][rests].At = at(16) }},
		{"three permits of two", "I15", func(h map[string][]history.Event) { h["s3"][works].At = at(24.9) }},
		{"a token that falls", "I15", func(h map[string][]history.Event) {
			h["m4"][granted].Claim.Token = tree.StampAt(12, 1)
		}},
		{"a token of two holders", "I15", func(h map[string][]history.Event) {
			h["m4"][granted].Claim.Token = tree.StampAt(13, 1)
		}},
		{"a writer's token below that of a reader", "I15", func(h map[string][]history.Event) {
			h["b3"][granted].Claim.Token = tree.StampAt(13, 2)
		}},
		{"a permit requested later, with a lower token", "I15", func(h map[string][]history.Event) {
			h["s3"][sent].At, h["s3"][granted].Claim.Token = at(23.5), tree.StampAt(20, 1)
		}},
		{"an older write is accepted", "I15", func(h map[string][]history.Event) { h["stored"][2].Kind = history.Stored }},
		{"the newest write is refused", "I15", func(h map[string][]history.Event) {
			h["stored"][2].Claim.Token = tree.StampAt(13, 1)
		}},
		{"refused for a token that it has not seen", "I15", func(h map[string][]history.Event) {
			h["stored"][2].Claim.Newest = tree.StampAt(14, 1)
		}},
		{"a holder is refused", "I15", func(h map[string][]history.Event) {
			h["stored"][1].At, h["stored"][2].At = at(11.5), at(12)
		}},
		{"a holder is disowned", "I15", func(h map[string][]history.Event) { h["vouched"][0].Claim.Holds = false }},
		{"a holder that gave up counts as holder", "I15", func(h map[string][]history.Event) {
			h["vouched"][1].Claim.Holds = true
			h["m2"] = nil
		}},
		{"a former holder is vouched for", "I15", func(h map[string][]history.Event) {
			h["vouched"][2].Claim.Holds = true
			h["m1"][cedes].Text = "the write had no effect"
		}},
		{"nothing without a reason", "liveness", func(h map[string][]history.Event) { h["m3"][1].Unknown = true }},
		{"a waiter is forgotten", "liveness", func(h map[string][]history.Event) { h["m4"] = nil }},
		{"a waiter waits for too long", "liveness", func(h map[string][]history.Event) {
			for i := range h["m4"] {
				h["m4"][i].At += at(10)
			}
		}},
		{"a place stays behind", "liveness", func(h map[string][]history.Event) {
			h["lined"][0].Claim.Left = []string{"lock-0000000007"}
		}},
		{"beside one whose entry no client has removed", "I15", func(h map[string][]history.Event) { h["broke"] = nil }},
		{"beside one whose entry is removed only then", "I15", func(h map[string][]history.Event) {
			h["broke"][0].Sent, h["broke"][0].At = at(27.2), at(27.3)
		}},
		{"in the place of the next one, who was broken", "I15", func(h map[string][]history.Event) {
			h["broke"][0].Claim.Token = tree.StampAt(26, 1)
		}},
		{"a broken holder works on", "broken", func(h map[string][]history.Event) { h["o1"][rests].At = at(28.1) }},
		{"a broken holder gives up what it has not", "broken", func(h map[string][]history.Event) {
			h["o1"][cedes].Text, h["o1"][cedes].Claim.Broken = "", false
		}},
		{"broken by no client", "broken", func(h map[string][]history.Event) {
			h["o2"][cedes].Text, h["o2"][cedes].Claim.Broken = "entry was removed", true
		}},
		{"a waiter is broken by no client", "liveness", func(h map[string][]history.Event) { h["broke"] = h["broke"][:1] }},
		{"a broken holder is vouched for", "I15", func(h map[string][]history.Event) {
			e := claimed(history.FenceChecked, 27.09, "p1/o1", Election, 25)
			e.Sent, e.Claim.Holds = at(27.05), true
			h["vouched"] = append(h["vouched"], e)
		}},
	} {
		h := contest()
		c.plant(h)
		found := false
		for _, v := range judgeClaims(h).Violations {
			found = found || v.Invariant == c.invariant
		}
		if !found {
			t.Errorf("%s: no violation of %s", c.name, c.invariant)
		}
	}
}

// TestClaimsInDoubt: what looks wrong has a reason.
func TestClaimsInDoubt(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(h map[string][]history.Event)
	}{
		{"nothing, because the session has ended, and the client does not know yet", func(h map[string][]history.Event) {
			h["m3"][1].Unknown, h["m3"][1].ID = true, 99
			h["ended"] = []history.Event{{At: at(16.5), Kind: history.AppliedEnd, Who: "n1", ID: 99, Index: 1}}
		}},
		{"the run ended before the last turn was due", func(h map[string][]history.Event) {
			h["m4"] = nil
			h["healed"][1].At = at(38)
		}},
		{"permits that were granted in one order, and reported in another", func(h map[string][]history.Event) {
			h["s3"][1].Claim.Token = tree.StampAt(20, 1)
		}},
		{"a broken holder is notified late, because its process was frozen", func(h map[string][]history.Event) {
			h["o1"][3].At, h["o1"][4].At = at(28.9), at(29)
			h["froze"] = []history.Event{{At: at(28.8), Sent: at(26.9), Kind: history.Froze, Who: "p1"}}
		}},
		{"a holder is disowned while a client removes its entry", func(h map[string][]history.Event) {
			e := claimed(history.FenceChecked, 26.9, "p1/o1", Election, 25)
			e.Sent = at(26.8)
			h["vouched"] = append(h["vouched"], e)
		}},
		{"the resource refuses one whose entry was removed", func(h map[string][]history.Event) {
			fenced := claimed(history.Fenced, 27.25, "p1/o1", Election, 25)
			fenced.Claim.Newest = tree.StampAt(26, 1)
			h["election"] = []history.Event{claimed(history.Stored, 27.2, "p2/o2", Election, 26), fenced}
		}},
		{"a resource learns of a newer token and refuses an older one at one moment", func(h map[string][]history.Event) {
			h["stored"][1].At, h["stored"][2].At = at(14), at(14)
			h["stored"][1], h["stored"][2] = h["stored"][2], h["stored"][1]
		}},
	} {
		h := contest()
		c.plant(h)
		if r := judgeClaims(h); len(r.Violations) > 0 {
			t.Errorf("%s: %v", c.name, r.Violations)
		}
	}
}
