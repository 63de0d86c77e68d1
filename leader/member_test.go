package leader

import (
	"errors"
	"testing"
	"time"

	"holdfast/session"
)

// T6: once a newer stream is open, no message on the former stream counts, even one that is being processed at that
// moment.
func TestT6FormerStreamIsSilent(t *testing.T) {
	r := newRounds(7, newPace(time.Second), 0)
	r.configure([]session.Member{{Node: 2, Voter: true}}, 1, 0)
	former, newest := newStream(session.Hello{Node: 2, Stream: 1}), newStream(session.Hello{Node: 2, Stream: 2})
	if _, err := r.open(former, 0); err != nil {
		t.Fatal(err)
	}
	r.begin(0)
	if got := r.next(former, 0); got == nil || !r.expects(former, 1) {
		t.Fatalf("the first stream gets heartbeat %+v", got)
	}
	if ended, err := r.open(newest, 5); err != nil || ended != former {
		t.Fatalf("opening a newer one ended %+v, %v", ended, err)
	}
	if got := r.next(newest, 5); got == nil || r.expects(former, 1) || r.next(former, 5) != nil {
		t.Errorf("an answer on the former stream still counts, or a heartbeat is sent on it; the newest got %+v", got)
	}
	r.close(former, 9)
	if !r.expects(newest, 1) {
		t.Error("the late end of the former stream ended the newest")
	}
}

// T6: about a stream that is refused, the node itself is asked. A stream that the node knows replaces one that it does
// not know, whatever that claimed. From then on, no stream is opened that the node does not know.
func TestT6WhatTheNodeSaysItselfCounts(t *testing.T) {
	at := func(directory, incarnation, stream uint64) session.Hello {
		return session.Hello{Node: 2, Directory: directory, Incarnation: incarnation, Stream: stream}
	}
	for name, tt := range map[string]struct {
		open, hello, newest session.Hello
		opens, doubts       bool
	}{
		"a forged incarnation":                       {at(1, 1<<62, 1), at(1, 9, 5), at(1, 9, 5), true, true},
		"a forged stream":                            {at(1, 9, 1<<63), at(1, 9, 5), at(1, 9, 5), true, true},
		"the next process, later":                    {at(1, 1<<62, 1), at(1, 10, 1), at(1, 10, 3), true, true},
		"an older stream":                            {at(1, 9, 5), at(1, 9, 4), at(1, 9, 5), false, false},
		"the same stream":                            {at(1, 9, 5), at(1, 9, 5), at(1, 9, 5), false, false},
		"a former process":                           {at(1, 9, 5), at(1, 8, 7), at(1, 9, 5), false, false},
		"an older process that the node reports":     {at(1, 9, 5), at(1, 8, 7), at(1, 8, 7), true, true},
		"a stream that the node does not know":       {at(1, 9, 5), at(1, 9, 4), at(1, 9, 3), false, false},
		"an incarnation that the node does not know": {at(1, 1<<62, 1), at(1, 1<<61, 1), at(1, 9, 5), false, false},
		"the node reports another directory":         {at(1, 1<<62, 1), at(1, 9, 5), at(3, 9, 5), false, false},
		"the stream is of another directory":         {at(1, 1<<62, 1), at(3, 9, 5), at(3, 9, 5), false, false},
		"a newer stream":                             {at(1, 9, 5), at(1, 9, 6), at(1, 9, 6), true, false},
		"the node has had no stream":                 {session.Hello{}, at(1, 9, 6), at(1, 9, 6), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRounds(7, newPace(time.Second), 0)
			r.configure([]session.Member{{Node: 2, Directory: 1, Voter: true}}, 1, 0)
			var former *stream
			if tt.open.Node != 0 {
				former = newStream(tt.open)
				if _, err := r.open(former, 0); err != nil {
					t.Fatal(err)
				}
			}
			s := newStream(tt.hello)
			ended, err := r.reopen(s, tt.newest, 5)
			if (err == nil) != tt.opens || tt.opens && ended != former || (r.current(s) != nil) != tt.opens {
				t.Errorf("reopen ended %+v, %v; want %v", ended, err, tt.opens)
			}
			next := newStream(at(1, tt.newest.Incarnation, tt.newest.Stream+1))
			if _, err = r.open(next, 6); (r.members[2].doubted || errors.Is(err, ErrSuperseded)) != tt.doubts &&
				tt.opens {
				t.Errorf("the next stream: %v, doubted %v", err, r.members[2].doubted)
			}
			if _, err = r.reopen(newStream(at(1, tt.newest.Incarnation, tt.newest.Stream+2)),
				at(1, tt.newest.Incarnation, tt.newest.Stream+2), 7); err != nil && tt.opens {
				t.Errorf("a stream that the node knows: %v", err)
			}
		})
	}
}

// R3, T6: a node on another data directory is another member. It gets no stream before the configuration names its
// directory, and no answer of the former directory counts for it. The start of the node's silence stays (E1 full
// timeout after a change of leader).
func TestR3OtherDirectoryIsAnotherMember(t *testing.T) {
	r := newRounds(7, newPace(time.Second), 0)
	named := func(directory uint64) []*stream {
		return r.configure([]session.Member{{Node: 2, Directory: directory, Voter: true}}, 1, 30)
	}
	named(1)
	former := newStream(session.Hello{Node: 2, Directory: 1, Incarnation: 9, Stream: 9})
	later := newStream(session.Hello{Node: 2, Directory: 2, Incarnation: 1, Stream: 1})
	if _, err := r.open(former, 0); err != nil {
		t.Fatal(err)
	}
	r.begin(10)
	r.next(former, 10)
	r.answer(former, &session.Answer{Round: 1, Term: 7, Last: true}, 20)
	if _, err := r.open(later, 20); !errors.Is(err, ErrDirectory) {
		t.Errorf("a directory that the configuration does not name: got %v, want %v", err, ErrDirectory)
	}
	if ended := named(2); len(ended) != 1 || ended[0] != former {
		t.Errorf("the change ended %v, want the former stream", ended)
	}
	if r.advance() {
		t.Error("the former directory's answer makes a round good for the later one")
	}
	if m := r.members[2]; m.silent != 30 || m.answered != nil {
		t.Errorf("silent since %v, newest answer %+v", m.silent, m.answered)
	}
	if _, err := r.open(former, 40); !errors.Is(err, ErrDirectory) {
		t.Errorf("the former directory comes back: got %v, want %v", err, ErrDirectory)
	}
	if _, err := r.open(later, 40); err != nil {
		t.Errorf("the later directory, whose incarnations begin anew: %v", err)
	}
	if ended := named(2); ended != nil {
		t.Errorf("the same configuration again ended %v", ended)
	}
}
