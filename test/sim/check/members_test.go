package check

import (
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// membersOf returns members: those in capitals vote. "Ab" are node 1, which votes, and node 2.
func membersOf(text string) (all []session.Member) {
	for _, c := range text {
		upper := strings.ToUpper(string(c)) == string(c)
		all = append(all, session.Member{Node: session.Node(strings.ToLower(string(c))[0] - 'a' + 1), Voter: upper})
	}
	return all
}

// configured plants that n1 finds members as the leader of a term.
func configured(seconds float64, term uint64, members string) plant {
	return add(history.Event{
		At: at(seconds), Kind: history.Configured, Who: "n1", Term: term, Members: membersOf(members),
	})
}

// listed plants that an operator is shown members.
func listed(sent, answered float64, members string) plant {
	return add(history.Event{
		At: at(answered), Kind: history.Listed, Who: "op1", Sent: at(sent), Members: membersOf(members),
	})
}

func wanted(k history.Kind, seconds float64, n session.Node, what string) plant {
	return add(history.Event{At: at(seconds), Kind: k, Who: "op", Node: n, Text: what})
}

// changed plants a good history in which node 4 is added and promoted, node 3 is demoted and promoted again, and node 2
// is removed by 60 s.
func changed() plant {
	return all(
		configured(20, 2, "ABC"),
		wanted(history.Wanted, 21, 4, added), configured(22, 2, "ABCd"), wanted(history.Changed, 23, 4, added),
		listed(23.5, 23.6, "ABCd"),
		wanted(history.Wanted, 24, 4, voter), configured(25, 2, "ABCD"), listed(25.5, 25.6, "ABCD"),
		configured(27, 2, "ABcD"), wanted(history.Changed, 28, 3, observer), listed(28.1, 28.2, "ABcD"),
		wanted(history.Wanted, 29, 3, voter), configured(30, 2, "ABCD"),
		wanted(history.Wanted, 56, 2, removed), configured(57, 2, "AbCD"), configured(58, 2, "ACD"),
		wanted(history.Changed, 60, 2, removed), listed(61, 61.1, "ACD"), configured(62, 3, "ACD"),
	)
}

func TestChangesOfMembersHold(t *testing.T) {
	r := Check(sorted(changed()(good())), bounds())
	for _, v := range r.Violations {
		t.Error(v)
	}
	for _, name := range []string{"J1 member", "J2 voter", "J3 gone", "J5", "R3 voters"} {
		if r.Checked[name] == 0 {
			t.Errorf("%s was not put to the test", name)
		}
	}
	for name, p := range map[string]plant{
		"a list that was requested before a removal": listed(59.9, 60.5, "ABCD"),
		"a leader of a former term that knows of no removal": all(
			configured(59.5, 3, "ACD"), configured(63, 2, "ABCD")),
		"a list without a node that is to be removed": listed(56.5, 57, "ACD"),
		"a request in flight at a removal": add(history.Event{
			At: at(62), Kind: history.Resumed, Who: "c9", Node: 2, ID: id2 + 1, Attachment: 99, Sent: at(61.5),
		}, history.Event{
			At: at(61), Kind: history.AppliedMove, Who: "n1", Node: 2, ID: id2 + 1, Attachment: 99, Index: 11, Term: 2,
			Timeout: timeout,
		}),
	} {
		for _, v := range Check(sorted(all(changed(), p)(good())), bounds()).Violations {
			if v.Invariant[0] == 'J' {
				t.Errorf("%s: %s", name, v)
			}
		}
	}
}

// promisedBefore makes node 2 promise, before its removal is shown, until a moment.
func promisedBefore(until float64) plant {
	return add(history.Event{
		At: at(60), Kind: history.Touched, Who: "c9", Node: 2, ID: id2 + 1, Attachment: 99, Sent: at(59.5),
		Until: at(until),
	})
}

// A removed node answers with its earlier promises.
func TestARemovedNodeKeepsItsPromises(t *testing.T) {
	repeats := add(history.Event{
		At: at(70), Kind: history.Touched, Who: "c9", Node: 2, ID: id2 + 1, Attachment: 99, Sent: at(69), Until: at(71),
	})
	for _, v := range Check(sorted(all(changed(), promisedBefore(71), repeats)(good())), bounds()).Violations {
		if v.Invariant == "J3" {
			t.Error(v)
		}
	}
}

// silentUntil makes node 2 serve a session whose first answer comes at a moment after the removal, with a promise.
func silentUntil(answered, until float64) plant {
	return add(history.Event{
		At: at(59), Kind: history.AppliedMove, Who: "n1", Node: 2, ID: id2 + 1, Attachment: 99, Index: 11, Term: 2,
		Timeout: timeout,
	}, history.Event{
		At: at(answered), Kind: history.Touched, Who: "c9", Node: 2, ID: id2 + 1, Attachment: 99, Sent: at(answered - 0.1),
		Until: at(until),
	})
}

// The client need not have received the promise before.
func TestARemovedNodeMayAnswerWithAnUnseenPromise(t *testing.T) {
	for _, v := range Check(sorted(all(changed(), silentUntil(63.2, 63.9))(good())), bounds()).Violations {
		if v.Invariant == "J3" {
			t.Error(v)
		}
	}
}

func TestChangesOfMembersAreJudged(t *testing.T) {
	serves := func(k history.Kind) plant {
		return add(history.Event{
			At: at(70), Kind: k, Who: "c9", Node: 2, ID: id2 + 1, Attachment: 99, Sent: at(69), Until: at(71),
		})
	}
	for _, tt := range []wrong{
		{"a removed member that is listed again", "J5", "whose removal was shown", listed(61.5, 61.6, "ABCD")},
		{"a member that a list lacks", "J1", "a list lacks node 4", listed(40, 40.1, "ABC")},
		{"a removed member that a leader finds", "J3", "a leader finds node 2", configured(63, 3, "ABCD")},
		{"a removed node that resumes sessions", "J3", "and serves", serves(history.Resumed)},
		{"a removed node that promises", "J3", "and serves", serves(history.Touched)},
		{"a removed node that promises more", "J3", "and serves", all(serves(history.Touched), promisedBefore(70.5))},
		{"a removed node that promises after a removal", "J3", "and serves", silentUntil(63.2, 64.1)},
		{"an observer with a vote", "J2", "is to be an observer", configured(23.5, 2, "ABCD")},
		{"a demoted member with a vote", "J2", "is to be an observer", configured(28.5, 2, "ABCD")},
		{"a demoted member that a list shows with a vote", "J2", "is to be an observer", listed(28.5, 28.6, "ABCD")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mustFind(t, all(changed(), tt.plant)(good()), tt.invariant, tt.words)
		})
	}
}

// Observers count for no quorum, and voters of former configurations neither (R3 good rounds).
func TestRoundsAreJudgedByTheVoters(t *testing.T) {
	stopped := func(members string, nodes ...session.Node) time.Duration {
		l := newFacts(bounds()).leaders
		l.configure(history.Event{Kind: history.Configured, Who: "n1", Term: 2, Members: membersOf(members)})
		for _, e := range append(beat("n1", 2, 20, 1, 2, 3), beat("n1", 2, 23, nodes...)...) {
			l.listen(e)
		}
		l.closeTerms()
		return l.terms[2].stoppedFor(20*second, 26*second)
	}
	for _, tt := range []struct {
		members string
		nodes   []session.Node
		stops   bool
	}{
		{"ABC", []session.Node{1, 2}, false},
		{"ABcd", []session.Node{1, 3, 4}, true},
		{"ABCDE", []session.Node{1, 2}, true},
		{"ABcde", []session.Node{1, 2}, false},
		{"Abc", []session.Node{1}, false},
	} {
		if got := stopped(tt.members, tt.nodes...); (got > 9*second/2) != tt.stops {
			t.Errorf("of %s %v answer, and the clock is stopped for %v", tt.members, tt.nodes, got)
		}
	}
	// A round becomes good without an answer when a voter that did not answer is none any more.
	l := newFacts(bounds()).leaders
	l.configure(history.Event{Kind: history.Configured, Who: "n1", Term: 2, Members: membersOf("ABCD")})
	for _, e := range beat("n1", 2, 20, 1, 2) {
		l.listen(e)
	}
	turns := len(l.terms[2].turns)
	l.configure(history.Event{At: at(21), Kind: history.Configured, Who: "n1", Term: 2, Members: membersOf("ABC")})
	if got := len(l.terms[2].turns); got != turns+1 {
		t.Errorf("%d turns, want %d", got, turns+1)
	}
}

// An election is judged by the voters, and not while they change.
func TestElectorate(t *testing.T) {
	l := newFacts(bounds()).leaders
	for _, e := range []history.Event{
		{At: at(10), Kind: history.Configured, Who: "n1", Term: 2, Members: membersOf("ABCd")},
		{At: at(20), Kind: history.Configured, Who: "n1", Term: 2, Members: membersOf("ABC")},
		{At: at(30), Kind: history.Configured, Who: "n1", Term: 2, Members: membersOf("ABCD")},
	} {
		l.configure(e)
	}
	if got, same := l.electorate(at(11), at(29)); !same || len(got) != 3 {
		t.Errorf("with an observer less the voters are %v, %v", got, same)
	}
	if got, same := l.electorate(at(11), at(31)); same {
		t.Errorf("with a new voter they are %v as before", got)
	}
	if got, same := l.electorate(at(31), at(40)); !same || len(got) != 4 {
		t.Errorf("then they are %v, %v", got, same)
	}
}
