package history

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
)

func TestKindsHaveNames(t *testing.T) {
	seen := make(map[string]Kind)
	for k := Opened; k <= Finished; k++ {
		name := k.String()
		if other, taken := seen[name]; taken || name == "?" {
			t.Errorf("kind %d is called %q, as is %d", k, name, other)
		}
		seen[name] = k
	}
	if got := Finished.String(); got != "finished" {
		t.Errorf("the last kind is called %q", got)
	}
	if got := (Finished + 1).String(); got != "?" {
		t.Errorf("a kind there is none of is called %q", got)
	}
}

func TestRecorderTellsTheStoryOfOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder()
		r.Add(Event{Kind: Opened, Who: "c1", ID: 1, Attachment: 7, Asked: 1, Until: r.Since(time.Now().Add(3 * time.Second))})
		time.Sleep(2 * time.Second)
		r.Add(Event{Kind: FaultBegan, Text: "cut n1"})
		r.Add(Event{Kind: Digest, Who: "n1", Index: 3, Text: "aa"})
		r.Add(Event{Kind: Opened, Who: "c2", ID: 2})
		r.Add(Event{
			Kind: AppliedEnd, Who: "n1", ID: 1, Index: 9, Term: 2, Timeout: time.Second, Cause: session.CauseExpired,
			Certificate: &session.Certificate{Owner: 3},
		})
		if got := r.Now(); got != 2*time.Second {
			t.Errorf("now is %v, want 2s", got)
		}
		want := []string{
			"     0.0000s c1   opened 0x0000000000000001 attachment 7 sent 0.0000s safe until 3.0000s",
			"     2.0000s      fault begins: cut n1",
			"     2.0000s n1   applied end 0x0000000000000001 timeout 1s index 9 term 2 expired (owner 3, term 0, last touch 0s before, credited 0s)",
			"",
		}
		if got := Story(r.Events(), 1); got != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	})
}
