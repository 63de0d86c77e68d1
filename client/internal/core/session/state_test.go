package session

import (
	"fmt"
	"strings"
	"testing"
)

// The next state for each state and trigger, written out. The table itself is made from rules.
func TestTransitionsExhaustively(t *testing.T) {
	const want = `
                     connecting   connected    jeopardy     read-only    expired      closed       auth failed
served               connected    connected    connected    connected    expired      closed       auth failed
served unpromised    jeopardy     jeopardy     jeopardy     jeopardy     expired      closed       auth failed
disconnected         connecting   connecting   connecting   connecting   expired      closed       auth failed
endangered           connecting   jeopardy     jeopardy     jeopardy     expired      closed       auth failed
only reads           read-only    read-only    read-only    read-only    expired      closed       auth failed
counted              connecting   connected    connected    connected    expired      closed       auth failed
counted unpromised   connecting   jeopardy     jeopardy     jeopardy     expired      closed       auth failed
lapsed               connecting   jeopardy     jeopardy     read-only    expired      closed       auth failed
regained             connecting   connected    connected    read-only    expired      closed       auth failed
taken over           closed       closed       closed       closed       expired      closed       auth failed
closed               closed       closed       closed       closed       expired      closed       auth failed
expired              expired      expired      expired      expired      expired      closed       auth failed
refused              auth failed  auth failed  auth failed  auth failed  expired      closed       auth failed
given up             closed       closed       closed       closed       expired      closed       auth failed`
	names := []string{
		"served", "served unpromised", "disconnected", "endangered", "only reads", "counted", "counted unpromised",
		"lapsed", "regained",
		"taken over", "closed", "expired", "refused", "given up",
	}
	if len(names) != triggers {
		t.Fatalf("there are %d triggers, and the table lists %d", triggers, len(names))
	}
	states := map[State]string{
		StateConnecting: "connecting", StateConnected: "connected", StateJeopardy: "jeopardy",
		StateConnectedReadOnly: "read-only", StateExpired: "expired", StateClosed: "closed",
		StateAuthFailed: "auth failed",
	}
	got := strings.Builder{}
	row := func(first string, cell func(State) State) {
		line := fmt.Sprintf("\n%-21s", first)
		for s := StateConnecting; s <= StateAuthFailed; s++ {
			line += fmt.Sprintf("%-13s", states[cell(s)])
		}
		got.WriteString(strings.TrimRight(line, " "))
	}
	row("", func(s State) State { return s })
	for i, name := range names {
		row(name, func(s State) State { return sessionStates()[s][i] })
	}
	if got.String() != want {
		t.Errorf("got%s\nwant%s", got.String(), want)
	}
	for i := range triggers {
		if trigger(i).kind() == 0 {
			t.Errorf("trigger %s has no kind of event", names[i])
		}
	}
}
