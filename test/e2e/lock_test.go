//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"holdfast/fence"
	"holdfast/test/timeout"
)

// competition is processes of "holdfast lock" that want the same lock, and what their workers note.
type competition struct {
	c    *cluster
	dir  string
	lock string
}

// competition makes one. It judges the record when the test ends.
func (c *cluster) competition(lock string) *competition {
	c.t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-lock-")
	timeout.Check(c.t, err)
	t := c.t
	x := &competition{c: c, dir: dir, lock: lock}
	t.Cleanup(func() {
		if err := judge(x.record()); err != nil { // also if the test has timed out
			t.Error(err)
		}
		// The kernel kills workers a moment after the command that ran them: until then they write.
		var left error
		for by := time.Now().Add(healWithin); time.Now().Before(by); time.Sleep(20 * time.Millisecond) {
			if left = os.RemoveAll(dir); left == nil {
				return
			}
		}
		t.Error(left)
	})
	return x
}

// command returns a process that runs a worker under the lock. It ends with ctx.
func (x *competition) command(ctx context.Context, job, death string) *exec.Cmd {
	self, err := os.Executable()
	timeout.Check(x.c.t, err)
	cmd := x.c.cli(ctx, "lock", x.lock, "--timeout", minTimeout.String(), "--", self)
	cmd.Env = append(cmd.Env, workerVar+"="+job, recordVar+"="+x.dir, deathVar+"="+death)
	cmd.Stderr = os.Stderr
	return cmd
}

// start starts one that ends with the test.
func (x *competition) start(job string) *exec.Cmd {
	x.c.t.Helper()
	cmd := x.command(x.c.t.Context(), job, "")
	timeout.Check(x.c.t, cmd.Start())
	return cmd
}

// line is a note of a worker.
type line struct {
	what  string
	token fence.Token
	pid   int
	at    time.Time
}

// record returns what the workers have noted.
func (x *competition) record() (all []line) {
	x.c.t.Helper()
	text, err := os.ReadFile(recordIn(x.dir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		x.c.t.Fatal(err)
	}
	for row := range strings.Lines(string(text)) {
		var l line
		var token string
		var at int64
		_, err = fmt.Sscan(row, &l.what, &token, &l.pid, &at)
		l.at = time.Unix(0, at)
		if err == nil {
			l.token, err = fence.Parse(token)
		}
		if err != nil {
			x.c.t.Fatalf("the record says %q: %v", row, err)
		}
		all = append(all, l)
	}
	return all
}

// first waits until a worker with a token above after has noted what, and returns the note.
func (x *competition) first(what string, after fence.Token) line {
	x.c.t.Helper()
	var found line
	x.c.await(minTimeout+healWithin, fmt.Sprintf("a worker notes %q with a token above %v", what, after),
		func() (bool, string) {
			all := x.record()
			i := slices.IndexFunc(all, func(l line) bool { return l.what == what && l.token > after })
			if i < 0 {
				return false, fmt.Sprintf("%d notes", len(all))
			}
			found = all[i]
			return true, ""
		})
	return found
}

// judge holds the record to what a lock promises: one at a time, tokens rise, and the resource takes no older write.
func judge(all []line) error {
	var begun, wrote fence.Token
	for i, l := range all {
		switch {
		case l.what == "overlap":
			return fmt.Errorf("line %d: %v began while another worker was inside", i, l.token)
		case strings.HasPrefix(l.what, "failed:"):
			return fmt.Errorf("line %d: %v could not write: %s", i, l.token, l.what)
		case l.what == "begin" && l.token <= begun:
			return fmt.Errorf("line %d: %v began after %v", i, l.token, begun)
		case l.what == "begin":
			begun = l.token
		case l.what == "wrote" && l.token < wrote:
			return fmt.Errorf("line %d: %v wrote after %v", i, l.token, wrote)
		case l.what == "wrote":
			wrote = l.token
		}
	}
	return nil
}

// TestLockJudge: a record that breaks a promise is found.
func TestLockJudge(t *testing.T) {
	for _, c := range []struct {
		name, says string
		record     []line
	}{
		{"sound", "", []line{
			{what: "begin", token: 1},
			{what: "wrote", token: 1},
			{what: "end", token: 1},
			{what: "begin", token: 2},
			{what: "wrote", token: 2},
			{what: "refused", token: 1},
		}},
		{"two at a time", "another worker was inside", []line{{what: "begin", token: 1}, {what: "overlap", token: 2}}},
		{"an older token begins", "0.1 began after 0.2", []line{{what: "begin", token: 2}, {what: "begin", token: 1}}},
		{"a token twice", "0.2 began after 0.2", []line{{what: "begin", token: 2}, {what: "begin", token: 2}}},
		{"an older write", "0.1 wrote after 0.2", []line{
			{what: "begin", token: 1}, {what: "begin", token: 2}, {what: "wrote", token: 2}, {what: "wrote", token: 1},
		}},
		{"a write that fails", "could not write", []line{{what: "begin", token: 1}, {what: "failed:no_space", token: 1}}},
	} {
		err := judge(c.record)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

// TestLockRounds: 20 processes compete for a lock, and many of them are killed with SIGKILL, before they have it and
// while they have it. One at a time has it, always, and everybody who lives gets it.
func TestLockRounds(t *testing.T) {
	c := up(t, 3)
	rounds, most := 100, 10*time.Minute
	if full {
		rounds, most = 1000, time.Hour
	}
	x := c.competition("rounds")
	late, stop := context.WithTimeout(t.Context(), most)
	defer stop()
	var next, killed, lost atomic.Int64
	var competitors sync.WaitGroup
	began := time.Now()
	for range 20 {
		competitors.Go(func() {
			for late.Err() == nil && next.Add(1) <= int64(rounds) && !t.Failed() {
				for late.Err() == nil && !x.round(late, &killed, &lost) {
				}
			}
		})
	}
	competitors.Wait()
	took(t, "all rounds", time.Since(began))
	timeout.Check(t, late.Err())
	had := len(begun(x.record()))
	count(t, "rounds", "", had)
	count(t, "killed", "", int(killed.Load()))
	count(t, "lost", "", int(lost.Load()))
	if lost.Load() > int64(rounds/10) {
		timeout.Fatalf(t, "%d programs were killed because their locks were about to be lost", lost.Load())
	}
	if had < rounds || killed.Load() == 0 {
		t.Errorf("%d rounds of %d, %d killed", had, rounds, killed.Load())
	}
}

// round runs one process. It reports false if the process was killed before it had the lock, or if its lock was about to
// be lost: on a busy machine a holder can miss its touches, and then its program is killed in time.
func (x *competition) round(ctx context.Context, killed, lost *atomic.Int64) bool {
	t := x.c.t
	death, want := "", 0
	switch n := rand.IntN(20); {
	case n < 2:
		death, want = itsGuard, -1
	case n < 4:
		death, want = itself, 128+int(syscall.SIGKILL)
	}
	cmd := x.command(ctx, "round", death)
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return true
	}
	early := death == "" && rand.IntN(16) == 0
	if early {
		time.AfterFunc(rand.N(time.Second), func() { _ = cmd.Process.Kill() })
	}
	_ = cmd.Wait()
	code := cmd.ProcessState.ExitCode()
	if death != "" || early && code == -1 {
		killed.Add(1)
	}
	switch {
	case ctx.Err() != nil: // its end killed the command
		return true
	case early && code == -1:
		return t.Failed() // it may have had its turn, and another one does no harm
	case death == "" && code == 128+int(syscall.SIGKILL):
		lost.Add(1)
		return t.Failed()
	case code != want:
		t.Errorf("a round that is to end with %q exits with %d, want %d", death, code, want)
	}
	return true
}

// TestLockHolderStops: a holder and its program stand still until the lock is another's, and then go on. The resource
// refuses what the program writes then, and the program is killed.
func TestLockHolderStops(t *testing.T) {
	c := up(t, 3)
	x := c.competition("stops")
	former := x.start("steady")
	old := x.first("wrote", 0)
	x.start("steady")
	timeout.Check(t, former.Process.Signal(syscall.SIGUSR1))
	x.first("stops", 0)
	timeout.Check(t, former.Process.Signal(syscall.SIGSTOP))
	present := x.first("wrote", old.token)
	timeout.Check(t, syscall.Kill(old.pid, syscall.SIGCONT))
	if late := x.first("refused", 0); late.pid != old.pid {
		t.Errorf("the resource has refused %+v, want the former holder %+v", late, old)
	}
	timeout.Check(t, former.Process.Signal(syscall.SIGCONT))
	wantKilled(t, former, old)
	x.wantHeldBy(present)
}

// TestLockHolderCutOff: a holder hears of no node. Its program gets SIGTERM and is killed before another can have the
// lock.
func TestLockHolderCutOff(t *testing.T) {
	c := up(t, 3)
	x := c.competition("cut-off")
	former := x.start("steady")
	old := x.first("wrote", 0)
	x.start("steady")
	for _, n := range c.all() {
		c.pause(n)
	}
	x.first("term", 0)
	wantKilled(t, former, old)
	if n := len(begun(x.record())); n != 1 {
		t.Errorf("%d workers have begun while no node ran, want the first alone", n)
	}
	for _, n := range c.all() {
		c.unpause(n)
	}
	present := x.first("wrote", old.token)
	x.wantHeldBy(present)
}

func begun(all []line) (tokens []fence.Token) {
	for _, l := range all {
		if l.what == "begin" {
			tokens = append(tokens, l.token)
		}
	}
	return tokens
}

// wantKilled waits for a holder that ends because its program was killed.
func wantKilled(t *testing.T, holder *exec.Cmd, program line) {
	t.Helper()
	const most = minTimeout + healWithin
	late := time.AfterFunc(most, func() { _ = holder.Process.Kill() })
	_ = holder.Wait()
	if !late.Stop() {
		timeout.Fatalf(t, "the holder has not ended within %v", most)
	}
	if code, want := holder.ProcessState.ExitCode(), 128+int(syscall.SIGKILL); code != want {
		t.Errorf("the holder exits with %d, want %d", code, want)
	}
	if err := syscall.Kill(program.pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the former holder's program: %v, want it gone", err)
	}
}

// wantHeldBy checks that "holdfast lock show" names the holder.
func (x *competition) wantHeldBy(present line) {
	x.c.t.Helper()
	ctx, cancel := context.WithTimeout(x.c.t.Context(), healWithin)
	defer cancel()
	out, err := x.c.cli(ctx, "lock", "show", x.lock, "-o", "json").Output()
	if err != nil || !strings.Contains(string(out), present.token.String()) {
		x.c.t.Errorf("lock show: %v\n%s\nwant the token %v", err, out, present.token)
	}
}
