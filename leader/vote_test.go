package leader

import (
	"testing"
	"time"

	"holdfast/session"
)

// R6: a node learns that it votes once every other voter that is not lost has applied an entry that is not before the
// configuration in which the node got its vote.
func TestR6Vote(t *testing.T) {
	r := newRounds(7, newPace(time.Second), 0)
	members := func(third bool) []session.Member {
		return []session.Member{{Node: 1, Voter: true}, {Node: 2, Voter: true}, {Node: 3, Directory: 9, Voter: third}}
	}
	var streams []*stream
	answers := func(now time.Duration, applied ...uint64) {
		r.begin(now)
		for i, at := range applied {
			r.next(streams[i], now)
			if at > 0 {
				r.answer(streams[i], &session.Answer{Round: r.newest.n, Term: 7, Last: true, Applied: at}, now)
			}
		}
	}
	tells := func(when string, now time.Duration, want uint64) {
		t.Helper()
		if got := r.votesFrom(streams[2], now); got != want {
			t.Errorf("%s: votes from %d, want %d", when, got, want)
		}
	}
	r.configure(members(false), 4, 0)
	for _, hello := range []session.Hello{
		{Node: 1, Stream: 1},
		{Node: 2, Stream: 1},
		{Node: 3, Directory: 9, Stream: 1},
	} {
		s := newStream(hello)
		if _, err := r.open(s, 0); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	answers(0, 5, 5, 5)
	tells("it has no vote", 0, session.NoVote)
	r.configure(members(true), 6, 0)
	tells("nobody has applied the entry of its vote", 0, session.NoVote)
	answers(1, 6, 5, 6)
	tells("the second voter has not", 1, session.NoVote)
	r.configure(members(true), 8, 1)
	answers(2, 6, 6, 6)
	tells("all have; what came behind it does not matter", 2, 6)
	r.configure([]session.Member{{Node: 1, Voter: true}, {Node: 2, Voter: true}, {Node: 3, Directory: 8, Voter: true}},
		9, 3)
	tells("a stream of its former directory", 3, session.NoVote)
	if got := r.votesFrom(streams[1], 3); got != session.NoVote {
		t.Errorf("entries that the former directory had applied count for its successor: the second votes from %d", got)
	}
	streams[2] = newStream(session.Hello{Node: 3, Directory: 8, Stream: 1})
	if _, err := r.open(streams[2], 3); err != nil {
		t.Fatal(err)
	}
	tells("the others have not applied the entry of the vote of the one in its place", 3, session.NoVote)
	answers(4, 9, 9, 9)
	tells("they have", 4, 9)

	// Another tracker has a voter that does not answer.
	r, streams = newRounds(8, newPace(time.Second), 0), nil
	r.configure(members(true), 12, 0)
	for _, hello := range []session.Hello{
		{Node: 1, Stream: 2},
		{Node: 2, Stream: 2},
		{Node: 3, Directory: 9, Stream: 2},
	} {
		s := newStream(hello)
		if _, err := r.open(s, 0); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	answers(0, 12, 0, 12)
	tells("the second has not answered", 3*time.Second-1, session.NoVote)
	tells("the second is lost", 3*time.Second, 12)
}
