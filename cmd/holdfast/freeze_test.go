package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/session/words"
)

func (o *operated) FreezeExpiry(_ context.Context,
	r *holdfastv1.FreezeExpiryRequest,
) (*holdfastv1.FreezeExpiryResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frozen = r
	return &holdfastv1.FreezeExpiryResponse{Index: 100}, nil
}

func (o *operated) ThawExpiry(context.Context, *holdfastv1.ThawExpiryRequest) (*holdfastv1.ThawExpiryResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frozen = nil
	return &holdfastv1.ThawExpiryResponse{Index: 101}, nil
}

func (o *operated) ExtendSession(_ context.Context,
	r *holdfastv1.ExtendSessionRequest,
) (*holdfastv1.ExtendSessionResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.extended = append(o.extended, r)
	return &holdfastv1.ExtendSessionResponse{Index: 102}, nil
}

func TestClusterFreezeAndThaw(t *testing.T) {
	o := startOperated(t)
	code, stdout, _ := execute(t, "", "cluster", "freeze", "--for", "30m", "--why", "new switches")
	if code != exitDone || !strings.Contains(stdout, "frozen for 30m") ||
		o.frozen.GetFor().AsDuration() != 30*time.Minute || o.frozen.GetWhy() != "new switches" {
		t.Errorf("exit code %d, %q, asked for %v", code, stdout, o.frozen)
	}
	if code, stdout, _ := execute(t, "", "cluster", "thaw"); code != exitDone || o.frozen != nil ||
		!strings.Contains(stdout, "thawed") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
	for _, wrong := range [][]string{
		{"cluster", "freeze"},
		{"cluster", "freeze", "--for", "25h"},
		{"cluster", "freeze", "--for", "1us"},
		{"cluster", "thaw", "x"},
		{"session", "extend", livingID.String()},
		{"session", "extend", "x", "--for", "1m"},
		{"session", "extend", livingID.String(), "--for", "-1s"},
	} {
		if code, _, stderr := execute(t, "", wrong...); code != exitUsage || stderr == "" {
			t.Errorf("%v: exit code %d, %q", wrong, code, stderr)
		}
	}
	if o.frozen != nil || len(o.extended) > 0 {
		t.Errorf("after wrong usage the node was asked for %v and %v", o.frozen, o.extended)
	}
}

func TestSessionExtend(t *testing.T) {
	o := startOperated(t)
	for _, span := range []time.Duration{10 * time.Minute, 0} {
		code, stdout, _ := execute(t, "", "session", "extend", livingID.String(), "--for", span.String())
		if code != exitDone || !strings.Contains(stdout, livingID.String()) {
			t.Errorf("for %s: exit code %d, %q", span, code, stdout)
		}
	}
	if len(o.extended) != 2 || o.extended[0].GetSessionId() != uint64(livingID) ||
		o.extended[0].GetFor().AsDuration() != 10*time.Minute || o.extended[1].GetFor().AsDuration() != 0 {
		t.Errorf("asked for %v", o.extended)
	}
}

// The explanation of a session and the status of a cluster say that nothing expires, and who wanted that.
func TestFreezesAreShown(t *testing.T) {
	text := strings.Join(words.Alive(new(living()), &session.Vigil{
		Leader: 3, Term: 7, Frozen: 20 * time.Minute, Kept: time.Hour, Remaining: time.Hour + time.Second,
	}), "\n")
	each(t, text, "nothing expires for 20m", "does not expire within 1h", "expires 1h0m1s from now")
	o := startOperated(t)
	o.freezing = &holdfastv1.Freezing{Left: durationpb.New(90 * time.Second), By: "ops\x1b[31m", Why: "new switches"}
	_, stdout, _ := execute(t, "", "cluster", "status")
	each(t, stdout, "\nfrozen for 1m30s more", `by ops\x1b[31m`, `"new switches"`, "nothing expires")
	_, stdout, _ = execute(t, "", "cluster", "status", "-o", "json")
	each(t, stdout, `"left_ms": 90000`, `"why": "new switches"`)
}
