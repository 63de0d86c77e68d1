package history

import (
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

func TestKindsHaveNames(t *testing.T) {
	seen := make(map[string]Kind)
	for k := Opened; k <= BackedUp; k++ {
		name := k.String()
		if other, taken := seen[name]; taken || name == "?" {
			t.Errorf("kind %d is called %q, as is %d", k, name, other)
		}
		seen[name] = k
	}
	if got := BackedUp.String(); got != "was backed up" {
		t.Errorf("the last kind is called %q", got)
	}
	if got := (BackedUp + 1).String(); got != "?" {
		t.Errorf("a kind there is none of is called %q", got)
	}
}

func TestRecorderTellsTheStoryOfOneSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := NewRecorder()
		r.Add(
			Event{
				Kind: Opened, Who: "c1", ID: 1, Attachment: 7, Sent: 1,
				Until: r.Since(time.Now().Add(3 * time.Second)),
			},
		)
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
			"     2.0000s n1   applied end 0x0000000000000001 timeout 1s index 9 term 2 expired (owner 3, term 0, " +
				"last touch 0s before, credited 0s)",
			"",
		}
		if got := Story(r.Events(), 1); got != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	})
}

// TestStoryIsShort has a session that lives from 10 s to 20 s, among events that concern it and events that do not.
func TestStoryIsShort(t *testing.T) {
	at := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	events := []Event{
		{At: at(1), Kind: AnswerReceived, Who: "n1", Node: 1, Term: 2, Sent: at(1)},
		{At: at(2), Kind: FaultBegan, Text: "over before"},
		{At: at(3), Kind: FaultEnded, Text: "over before"},
		{At: at(3), Kind: AnswerReceived, Who: "n2", Node: 2, Term: 3, Sent: at(3)},
		{At: at(4), Kind: FaultBegan, Text: "cut n3"},
		{
			At: at(10), Kind: AppliedOpen, Who: "n2", Node: 2, ID: 1, Attachment: 7, Index: 5, Term: 3,
			Timeout: time.Second,
		},
		{At: at(10), Kind: AnswerReceived, Who: "n2", Node: 2, Term: 3, Sent: at(10)},
		{
			At: at(10.5), Kind: AppliedOpen, Who: "n1", Node: 2, ID: 1, Attachment: 7, Index: 5, Term: 3,
			Timeout: time.Second,
		},
		{At: at(11), Kind: Touched, Who: "c1", ID: 1, Attachment: 7, Sent: at(11)},
		{At: at(11.5), Kind: AppliedOpen, Who: "n1", Node: 1, ID: 2, Attachment: 8, Index: 6, Term: 3},
		{At: at(12), Kind: Touched, Who: "c1", ID: 1, Attachment: 7, Sent: at(12)},
		{At: at(13), Kind: Touched, Who: "c1", ID: 1, Attachment: 7, Sent: at(13)},
		{At: at(14), Kind: FaultEnded, Text: "cut n3"},
		{At: at(15), Kind: AnswerReceived, Who: "n3", Node: 2, Term: 4, Sent: at(15)},
		{
			At: at(20), Kind: AppliedEnd, Who: "n2", Node: 2, ID: 1, Attachment: 7, Index: 9, Term: 4,
			Timeout: time.Second, Cause: session.CauseExpired,
		},
		{At: at(25), Kind: FaultBegan, Text: "too late"},
		{
			At: at(26), Kind: AppliedOpen, Who: "n2", Node: 2, ID: 1, Attachment: 7, Index: 5, Term: 3,
			Timeout: time.Second,
		},
	}
	want := []string{
		"     3.0000s n2   leads term 3",
		"     4.0000s      fault begins: cut n3",
		"    10.0000s n2   applied open node 2 0x0000000000000001 attachment 7 timeout 1s index 5 term 3, n1 at " +
			"10.5000s",
		"    10.0000s      no leader receives an answer of node 2 until 15.0000s",
		"    11.0000s c1   touched 0x0000000000000001 attachment 7 sent 11.0000s",
		"         ... c1   (1 more of the kind)",
		"    13.0000s c1   touched 0x0000000000000001 attachment 7 sent 13.0000s",
		"    14.0000s      fault ends: cut n3",
		"    15.0000s n3   leads term 4",
		"    15.0000s      no leader receives an answer of node 2 until 20.0000s",
		"    19.0000s >>>> wrong",
		"    20.0000s n2   applied end node 2 0x0000000000000001 attachment 7 timeout 1s index 9 term 4 expired",
		"",
	}
	if got := Story(events, 1, Mark{At: at(19), Text: "wrong"}); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if got, want := Story(events, 0), "fault begins: too late"; !strings.Contains(got, want) ||
		strings.Contains(got, "touched") {
		t.Errorf("the story of an unknown id is\n%s\nwant %q in it and no touches", got, want)
	}
}
