package proc

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/session"
)

func TestParseStat(t *testing.T) {
	const stat = "4711 (a (b) c) S 1 4711 4711 0 -1 4194304 100 0 0 0 250 50 9 9 20 0 3 0 100 1000 10 1 1"
	if got, err := parseStat([]byte(stat)); got != 3*time.Second || err != nil {
		t.Errorf("got %v, %v, want 3s of user mode and kernel together", got, err)
	}
	if _, err := parseStat([]byte("1 (a) S 1 2 3")); err == nil {
		t.Error("a line that is too short is taken")
	}
}

func TestParseRSS(t *testing.T) {
	if got, err := parseRSS("VmHWM:\t  200 kB\nVmRSS:\t    96 kB\n"); got != 96 || err != nil {
		t.Errorf("got %d, %v, want 96", got, err)
	}
	if _, err := parseRSS("VmHWM:\t  200 kB\n"); err == nil {
		t.Error("a status without VmRSS is taken")
	}
}

func TestProcess(t *testing.T) {
	p, err := Start(Spec{
		Name: "busy", Dir: t.TempDir(), Args: []string{"/bin/sh", "-c", "echo $WORD; while :; do :; done"},
		Env: []string{"WORD=begun"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	for deadline := time.Now().Add(30 * time.Second); CPU(p) < 50*time.Millisecond; {
		if time.Now().After(deadline) {
			t.Fatalf("CPU is %v after 30s of a loop", CPU(p))
		}
	}
	if rss, err := RSS(p); rss < 1<<12 || err != nil {
		t.Errorf("RSS is %d, %v, want a page at least", rss, err)
	}
	if out, err := os.ReadFile(p.Log()); strings.TrimSpace(string(out)) != "begun" || err != nil {
		t.Errorf("log is %q, %v, want the word of its environment", out, err)
	}
	if err := p.Freeze(t.Context()); err != nil {
		t.Error(err)
	}
	frozen := CPU(p)
	if err := session.Sleep(t.Context(), 50*time.Millisecond); err != nil {
		t.Error(err)
	}
	if now := CPU(p); now != frozen {
		t.Errorf("a frozen loop used %v", now-frozen)
	}
	p.Kill()
	<-p.Ended()
	if used := CPU(p); used != 0 {
		t.Errorf("CPU of an ended process is %v, want 0", used)
	}
	if _, err := RSS(p); err == nil {
		t.Error("RSS of an ended process is known")
	}
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := Until(ctx, time.Millisecond, func(context.Context) error {
		out, err := os.ReadFile(p.Log())
		if err == nil && strings.Count(string(out), "begun") != 2 {
			err = fmt.Errorf("log is %q, want the word of both runs", out)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
