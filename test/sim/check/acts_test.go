package check

import (
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

const reason = "op1/1"

// bid plants an operator's kill of a good history's session.
func bid(sent, answered float64, index uint64, o history.Outcome) plant {
	return add(history.Event{
		At: at(answered), Kind: history.Killed, Who: "op1", ID: id, Sent: at(sent), Index: index,
		Act: &history.Act{Why: reason, Outcome: o},
	})
}

// killed makes the end of a good history's session, entry 7 at 40.26 s, one that an operator requested.
func killed() plant {
	certify := func(e *history.Event) {
		e.Certificate.Cause, e.Certificate.Story.Why = session.CauseKilled, reason
	}
	return all(drop(history.Decided), change(history.LearntGone, "", certify),
		change(history.AppliedEnd, "", func(e *history.Event) { e.Cause = session.CauseKilled; certify(e) }))
}

// extended plants an operator's extension for some seconds, kept one that a node has applied as the entry before an
// index, until the log clock reads 103 s.
func extended(sent, lasts float64, o history.Outcome) plant {
	return add(history.Event{
		At: at(sent + 0.01), Kind: history.Extended, Who: "op1", ID: id, Sent: at(sent), Timeout: at(lasts),
		Act: &history.Act{Why: reason, Outcome: o},
	})
}

func kept(who string, applied, lasts float64) plant {
	return add(history.Event{
		At: at(applied), Kind: history.Kept, Who: who, ID: id, Index: 6, Timeout: at(lasts), Until: 103 * second,
	})
}

// clockReads plants the log clock's value in an entry.
func clockReads(index uint64, applied, clock float64) plant {
	return add(history.Event{
		At: at(applied), Kind: history.Committed, Who: "n1", Index: index, Ledger: &history.Ledger{Clock: at(clock)},
	})
}

// TestActsAreJudged plants wrong answers to operators and wrong effects.
func TestActsAreJudged(t *testing.T) {
	findAll(t, []wrong{
		{"killed without a request", "Y1", "no operator had requested it", killed()},
		{"killed before the request", "Y1", "no operator had requested it", all(killed(), bid(40.265, 40.3, 7, history.Done))},
		{"killed for another reason", "Y1", "no operator had requested it", all(
			killed(), bid(40.2, 40.3, 7, history.Done), change(history.AppliedEnd, "", func(e *history.Event) {
				e.Certificate.Story.Why = "another"
			}))},
		{"reported done before it is", "Y1", "no node had done that", all(killed(), bid(40.2, 40.25, 7, history.Done))},
		{"reported done, and it expires", "Y1", "it ended otherwise", bid(40.2, 40.3, 7, history.Done)},
		{"reported with another entry", "Y1", "it ended otherwise", all(killed(), bid(40.2, 40.3, 6, history.Done))},
		{"a local end that was reported and never happened", "Y1", "no node had done that", all(
			killed(), bid(40.2, 40.3, 0, history.Done))},
		{"reported as ended before", "Y1", "no node had applied an end", all(
			killed(), bid(40.1, 40.3, 7, history.Done), bid(39, 39.1, 0, history.WasGone))},
		{"a client that is notified of an expiry", "Y1", "was notified that it ended otherwise", all(
			killed(), bid(40.2, 40.3, 7, history.Done), change(history.LearntGone, "", func(e *history.Event) {
				e.Certificate.Cause = session.CauseExpired
			}))},
		{"a client that does not get the reason", "Y1", "for another reason", all(
			killed(), bid(40.2, 40.3, 7, history.Done), change(history.LearntGone, "", func(e *history.Event) {
				e.Certificate.Story.Why = ""
			}))},
		{"an extension that no node applies", "Y4", "after an operator requested to keep it", extended(38, 5, history.Done)},
		{"an end that the state must ignore", "Y4", "it is kept until", all(
			kept("n2", 38.1, 5), clockReads(7, 40.26, 102.9))},
		{"a leader that asks for an end", "Y4", "decides to end it", all(
			extended(38, 5, history.Doubtful), kept("n1", 38.005, 5))},
		{"a session that outlives its extension", "I2", "(kept since", all(
			storm(20, 32), kept("n1", 38.1, 3), clockReads(20, 41.1, 103), expires(42.6))},
		{"a session that outlives its extension in a calm cluster", "I2", "it should have expired by", all(
			kept("n1", 38.1, 3), clockReads(20, 41.1, 103), expires(43.2))},
	})
}

// TestActsExcuse plants correct acts.
func TestActsExcuse(t *testing.T) {
	for name, tt := range map[string]struct {
		plant plant
		count string
	}{
		"a kill":                        {all(killed(), bid(40.2, 40.3, 7, history.Done)), "Y1 done"},
		"a kill in doubt":               {all(killed(), bid(40.2, 43, 0, history.Doubtful)), "Y1"},
		"the reason that a client gets": {all(killed(), bid(40.2, 40.3, 7, history.Done)), "Y1 reported"},
		"a kill that comes too late": {
			all(killed(), bid(40.2, 40.3, 7, history.Done), bid(40.2, 40.31, 0, history.WasGone)), "Y1 gone",
		},
		"an extension that is over": {extended(37, 3, history.Done), "Y4"},
		"an entry behind the time":  {all(kept("n2", 38.1, 5), clockReads(7, 40.26, 103)), "Y4 state"},
		"a leader behind the time": {
			all(extended(37, 3, history.Done), kept("n1", 37.01, 3), clockReads(7, 40.26, 103)), "Y4 leader",
		},
		"an end behind an extension": {
			all(storm(20, 32), kept("n1", 38.1, 3), clockReads(20, 41.1, 103), expires(42.2)), "I2 kept",
		},
		"an extension that continues":   {all(storm(30, 49), kept("n1", 38.1, 30), unless(isEnd)), "M3"},
		"an extension that is in doubt": {all(extended(38, 5, history.Doubtful), extended(36, 1, history.Doubtful)), "I2"},
		"one reverted that the leader's node shows late": {all(
			extended(38, 5, history.Doubtful), extended(38.9, 0, history.Doubtful), kept("n1", 38.005, 5),
			add(history.Event{At: at(39), Kind: history.Kept, Who: "n1", ID: id, Index: 6, ApplyDelay: at(5)}),
		), "I1"},
		"one reverted": {all(extended(38, 5, history.Done), extended(38.5, 0, history.Done)), "I2"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Check(sorted(tt.plant(good())), bounds())
			for _, v := range r.Violations {
				t.Error(v)
			}
			if r.Checked[tt.count] == 0 {
				t.Errorf("%s was not put to the test", tt.count)
			}
		})
	}
}

// isEnd says whether an event is about the end of a good history's session.
func isEnd(e history.Event) bool {
	return e.ID == id && (e.Kind == history.Decided || e.Kind == history.AppliedEnd || e.Kind == history.LearntGone)
}

// A local session is ended by its own node, for an operator who requested that.
func TestLocalKillsAreJudged(t *testing.T) {
	end := of(expires2, history.LocalEnded, func(e *history.Event) {
		e.Cause, e.Certificate.Cause, e.Certificate.Story.Why = session.CauseKilled, session.CauseKilled, reason
	})
	reported := unless(func(e history.Event) bool { return e.ID == expires2 && e.Kind == history.LearntGone })
	var ended time.Duration
	for _, e := range goodLocal() {
		if e.ID == expires2 && e.Kind == history.LocalEnded {
			ended = e.At
		}
	}
	by := func(answered time.Duration) plant {
		return add(history.Event{
			At: answered, Kind: history.Killed, Who: "op1", ID: expires2, Sent: ended - 100*time.Millisecond,
			Act: &history.Act{Why: reason, Outcome: history.Done},
		})
	}
	mustFind(t, all(reported, end)(goodLocal()), "Y1", "no operator had requested it")
	mustFind(t, all(reported, end, by(ended-time.Millisecond))(goodLocal()), "Y1", "no node had done that")
	r := Check(sorted(all(reported, end, by(ended+time.Millisecond))(goodLocal())), bounds())
	for _, v := range r.Violations {
		t.Error(v)
	}
	if r.Checked["Y1 done"] == 0 {
		t.Error("the kill of a local session was not put to the test")
	}
}
