package check

import (
	"slices"
	"strings"
	"testing"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// succession is a history of three nodes: n1 leads term 2 from the second second on, and more happens.
func succession(more ...history.Event) []history.Event {
	var events []history.Event
	for i, who := range []string{"n1", "n2", "n3"} {
		events = append(events, history.Event{Kind: history.NodeStarted, Who: who, Node: session.Node(i + 1)})
	}
	events = append(events, leads(1, "n1", 2), history.Event{Kind: history.Finished, At: at(200)})
	events = append(events, more...)
	return sorted(events)
}

// five adds two nodes.
func five() []history.Event {
	return []history.Event{
		{Kind: history.NodeStarted, Who: "n4", Node: 4}, {Kind: history.NodeStarted, Who: "n5", Node: 5},
	}
}

func leads(seconds float64, who string, term uint64) history.Event {
	return history.Event{Kind: history.Leads, At: at(seconds), Who: who, Term: term}
}

// broke is a fault between two moments.
func broke(from, till float64, clean bool) []history.Event {
	return []history.Event{
		{Kind: history.FaultBegan, At: at(from), Text: "a fault", Clean: clean},
		{Kind: history.FaultEnded, At: at(till), Text: "a fault"},
	}
}

// happens are the events of a history, in groups.
type happens [][]history.Event

// verdictOf is a history with the judge's verdict.
type verdictOf struct {
	happens happens
	// judged is the counted case, "" for none; wrong the violated rule, "" for none.
	judged, wrong, says string
}

func successions() map[string]verdictOf {
	refused := func(one, other string) []history.Event {
		return []history.Event{
			{Kind: history.Refuses, At: at(50), Who: one, Text: other},
			{Kind: history.Admits, At: at(53), Who: one, Text: other},
		}
	}
	reset := []history.Event{{Kind: history.Reset, At: at(51), Who: "n1", Text: "n2"}}
	died := func(who string, seconds float64) []history.Event {
		return []history.Event{{Kind: history.NodeStopped, At: at(seconds), Who: who}}
	}
	links := broke(50, 53, true)
	// rounds are answers to the heartbeats of n1, the last of them at a moment.
	rounds := func(last float64) (all []history.Event) {
		for _, seconds := range []float64{40, last} {
			for n := range 3 {
				all = append(all, history.Event{
					Kind: history.AnswerReceived, At: at(seconds), Who: "n1", Node: session.Node(n + 1), Term: 2, Sent: at(seconds),
				})
			}
		}
		return all
	}
	rough := []history.Event{
		{Kind: history.FaultBegan, At: at(46), Text: "a rough one"},
		{Kind: history.FaultEnded, At: at(47), Text: "a rough one"},
	}
	return map[string]verdictOf{
		"resets, and nothing":         {happens{links, reset}, "F1", "", ""},
		"resets depose":               {happens{links, reset, {leads(52, "n3", 3)}}, "F1", "F1", "was deposed"},
		"soon after the resets":       {happens{links, reset, {leads(54.4, "n3", 3)}}, "F1", "F1", "was deposed"},
		"no round for 3 s":            {happens{links, reset, rounds(48.9), {leads(52, "n3", 3)}}, "F1", "", ""},
		"no round for less":           {happens{links, reset, rounds(49.1), {leads(52, "n3", 3)}}, "F1", "F1", "was deposed"},
		"long after the resets":       {happens{links, reset, {leads(55, "n3", 3)}}, "F1", "", ""},
		"it leads again":              {happens{links, reset, {leads(52, "n1", 3)}}, "F1", "F1", "was deposed"},
		"resets after another fault":  {happens{links, rough, reset, {leads(52, "n3", 3)}}, "", "", ""},
		"resets of a fault that cuts": {happens{broke(50, 53, false), reset, {leads(52, "n3", 3)}}, "", "", ""},
		"one is refused": {
			happens{links, refused("n2", "n1"), {leads(52, "n2", 3)}}, "F2", "F2", "was deposed",
		},
		"the leader is refused by one": {
			happens{links, refused("n1", "n2"), {leads(52, "n2", 3)}}, "F2", "F2", "was deposed",
		},
		"a majority is refused": {
			happens{links, refused("n2", "n1"), refused("n3", "n1"), {leads(52, "n2", 3)}}, "", "", "",
		},
		"one is refused, the other ended": {
			happens{links, refused("n2", "n1"), died("n3", 51), {leads(52, "n2", 3)}}, "", "", "",
		},
		"one is refused, the other ended long ago": {
			happens{died("n3", 20), links, refused("n2", "n1"), {leads(52, "n2", 3)}}, "", "", "",
		},
		"a follower ends": {
			happens{links, died("n3", 51), {leads(52, "n2", 3)}}, "F4 follower", "F4", "was deposed",
		},
		"ended, and replaced": {happens{links, died("n1", 51), {leads(51.3, "n2", 3)}}, "F4", "", ""},
		"ended, and replaced late": {
			happens{links, died("n1", 51), {leads(52.1, "n2", 3)}}, "F4", "F4", "no node leads 1s later",
		},
		"ended, and two terms": {
			happens{links, died("n1", 51), {leads(51.8, "n2", 4)}}, "F4", "F3", "several terms",
		},
		"ended, and two leaders": {
			happens{links, died("n1", 51), {leads(51.1, "n2", 3), leads(51.2, "n3", 4)}},
			"F4", "F3",
			"several terms",
		},
		"ended, and its successor too": {
			happens{five(), links, died("n1", 51), {leads(51.1, "n2", 3)}, died("n2", 51.6), {leads(51.7, "n3", 4)}},
			"F4", "", "",
		},
		"ended, its successor too, and two follow": {
			happens{
				five(), links, died("n1", 51),
				{leads(51.1, "n2", 3)},
				died("n2", 51.6),
				{leads(51.7, "n3", 4), leads(51.8, "n4", 5)},
			},
			"F4", "F3", "several terms",
		},
		"ended, and so does another": {happens{links, died("n1", 51), died("n2", 51.1)}, "", "", ""},
		"two lead one term":          {happens{{leads(51, "n2", 2)}}, "", "R3", "two leaders"},
	}
}

func TestElections(t *testing.T) {
	for name, tt := range successions() {
		t.Run(name, func(t *testing.T) {
			r := Check(succession(slices.Concat(tt.happens...)...), bounds())
			for _, rule := range []string{"F1", "F2", "F4", "F4 follower"} {
				if got := r.Checked[rule] > 0; got != (rule == tt.judged) {
					t.Errorf("%s was judged: %v", rule, got)
				}
			}
			var found []string
			for _, v := range r.Violations {
				found = append(found, v.String())
			}
			switch {
			case tt.wrong == "" && len(found) > 0:
				t.Errorf("found %v", found)
			case tt.wrong != "" && (len(found) != 1 || !strings.HasPrefix(found[0], tt.wrong+" violated") ||
				!strings.Contains(found[0], tt.says)):
				t.Errorf("found %v, want %s: %s", found, tt.wrong, tt.says)
			}
		})
	}
}
