package roles

import (
	"testing"

	"holdfast/session"
)

func TestT6StreamsCountOn(t *testing.T) {
	s := NewStreams(session.Hello{Node: 2, Directory: 7, Incarnation: 5})
	want := session.Hello{Node: 2, Directory: 7, Incarnation: 5}
	if got := s.Newest(); got != want {
		t.Errorf("before the first stream: got %+v, want %+v", got, want)
	}
	for range 3 {
		want.Stream++
		if got := s.next(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got := s.Newest(); got != want {
			t.Errorf("newest: got %+v, want %+v", got, want)
		}
	}
}
