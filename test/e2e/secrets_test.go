//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"holdfast/test/altered"
	"holdfast/test/timeout"
)

// TestNoSecretOfAProcess looks for bearer tokens, the token of a session, the private key of TLS and the cluster's key
// in what a node and the command line show of themselves: logs at trace, titles of processes, tables and JSON, what is
// said of a backup, the metadata of snapshots, and the stacks of all goroutines when SIGQUIT ends a node and when it
// panics. In the end each secret is put into each of these, and a node is run that shows the cluster's key when it
// panics: the test must find all of that.
func TestNoSecretOfAProcess(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	k.start(k.altered(altered.Snapshots("500 * time.Millisecond", 20, 10)...))
	k.looks()
	k.snapshots()
	k.quit()
	k.start(k.altered(altered.Change{
		File: "fsm/step.go", Text: "case session.FreezeExpiry, session.ThawExpiry,", By: "case session.FreezeExpiry,",
	}))
	k.say("cluster", "freeze", "--for", "1m", "--reason", "secrets")
	k.shown["the log of a panic"] = k.panics("session.ThawExpiry was decoded and cannot be applied", "cluster", "thaw")
	for _, one := range leaks(k.shown, k.secrets) {
		t.Error(one)
	}

	k.finds()
	k.start(k.altered(altered.Change{
		File: "fsm/step.go", Text: "r.First, r.Err = s.claim(c)", By: `panic(fmt.Sprintf("planted: %x", s.key[:]))`,
	}))
	log := map[string]string{"the log": k.panics("panic: planted: ", "id", "allocate")}
	if found := leaks(log, k.secrets); len(found) != 1 || found[0] != "the cluster's key is in the log" {
		t.Errorf("of a panic that shows the cluster's key: %q", found)
	}
}

// keeper is a node that holds secrets, with all that it and its callers show.
type keeper struct {
	*processes
	t              *testing.T
	dir            string
	secrets, shown map[string]string
}

func newKeeper(t *testing.T) *keeper {
	t.Helper()
	k := &keeper{processes: newProcesses(t, 1), t: t, dir: t.TempDir(), shown: make(map[string]string)}
	k.env = []string{"GOTRACEBACK=all"}
	must(t, holdfastProgram, "cert", "ca", "--dir", k.dir)
	must(t, holdfastProgram, "cert", "node", "1", "--dir", k.dir, "--cluster-id", "holdfast", "--host", "127.0.0.1")
	made := must(t, holdfastProgram, "auth", "token", "new", "ops", "--role", "admin", "--role", "client")
	found := regexp.MustCompile(`(?s)token +(\S+)\nline +(.*?)\n`).FindStringSubmatch(made + "\n")
	if found == nil {
		t.Fatalf("no token in %q", made)
	}
	key, err := os.ReadFile(k.file("node-1.key"))
	err = errors.Join(err, os.WriteFile(k.file("token"), []byte(found[1]), 0o600),
		os.WriteFile(k.file("auth.yaml"), []byte("tokens:\n"+found[2]+"\n"), 0o600))
	timeout.Check(t, err)
	k.secrets = map[string]string{"the bearer token": found[1], "the key of TLS": strings.Split(string(key), "\n")[1]}
	return k
}

func (k *keeper) file(name string) string { return filepath.Join(k.dir, name) }

// start starts the node, and waits until it serves.
func (k *keeper) start(program string) {
	k.t.Helper()
	k.startProgram(1, program, "--auth", "tokens", "--auth-file", k.file("auth.yaml"), "--client-tls", "require",
		"--log-level", "trace", "--tls-cert", k.file("node-1.pem"), "--tls-key", k.file("node-1.key"),
		"--tls-ca", k.file("ca.pem"))
	k.c.await(healWithin, "the node serves", func() (bool, string) { return k.healthy(1), tail(k.log(1), 5) })
}

// say runs the command line as the administrator.
func (k *keeper) say(args ...string) string {
	k.t.Helper()
	return must(k.t, append([]string{holdfastProgram}, append(args, k.as()...)...)...)
}

func (k *keeper) as() []string {
	return []string{
		"--endpoints", k.c.address(1), "--cacert", k.file("ca.pem"), "--auth-token-file", k.file("token"),
	}
}

// looks opens a session, and asks for all that operators can see.
func (k *keeper) looks() {
	k.t.Helper()
	opened := k.say("session", "open", "--timeout", "60s", "-o", "json")
	session := regexp.MustCompile(`"token": *"([^"]+)"`).FindStringSubmatch(opened)
	if session == nil {
		k.t.Fatalf("no token in %s", opened)
	}
	k.secrets["the token of the session"] = session[1]
	k.shown["the backup's table"] = k.say("snapshot", "save", k.file("backup"))
	for _, of := range []string{"session ls", "cluster status", "cluster members", "cluster connections"} {
		k.shown[of] = k.say(strings.Fields(of)...)
		k.shown[of+" -o json"] = k.say(append(strings.Fields(of), "-o", "json")...)
	}
	k.shown["the backup's JSON"] = must(k.t, holdfastProgram, "snapshot", "verify", k.file("backup"), "-o", "json")
	k.shown["auth token show"] = must(k.t, holdfastProgram, "auth", "token", "show", k.file("auth.yaml"))
	k.shown["the title of the node"] = title(k.t, k.newest[1].cmd.Process.Pid)
	ctx, cancel := context.WithCancel(k.t.Context())
	defer cancel()
	watch := k.c.cli(ctx, append([]string{"session", "watch"}, k.as()...)...)
	timeout.Check(k.t, watch.Start())
	k.shown["the title of a client"] = title(k.t, watch.Process.Pid)
	cancel()
	_ = watch.Wait() // it was killed
}

// snapshots has the node make a snapshot, whose state has the cluster's key.
func (k *keeper) snapshots() {
	k.t.Helper()
	for range 25 { // more than the entries after which a node snapshots
		k.say("session", "open", "--timeout", "60s")
	}
	whole := filepath.Join(k.data(1), "snapshots", "*[0-9]")
	k.c.await(healWithin, "a snapshot is there", func() (bool, string) {
		// The node deletes older snapshots meanwhile.
		all, err := filepath.Glob(whole)
		if err != nil || len(all) == 0 {
			return false, fmt.Sprint(err)
		}
		newest := all[len(all)-1]
		metadata, err := os.ReadFile(filepath.Join(newest, "meta.json"))
		state, failed := os.ReadFile(filepath.Join(newest, "state.bin"))
		if err = errors.Join(err, failed); err != nil {
			return false, err.Error()
		}
		k.shown["the metadata of a snapshot"] = string(metadata)
		k.secrets["the cluster's key"] = clusterKey(k.t, state)
		return json.Valid(metadata), string(metadata)
	})
}

// quit ends the node with SIGQUIT, and checks that it showed the stacks of all goroutines.
func (k *keeper) quit() {
	k.t.Helper()
	timeout.Check(k.t, k.newest[1].cmd.Process.Signal(syscall.SIGQUIT))
	k.shown["the log"] = k.crashed("SIGQUIT")
}

// panics has the node panic at a command, which gets no answer, and returns what it logged.
func (k *keeper) panics(why string, args ...string) string {
	k.t.Helper()
	ctx, cancel := context.WithCancel(k.t.Context())
	defer cancel()
	asks := k.c.cli(ctx, append(args, k.as()...)...)
	timeout.Check(k.t, asks.Start())
	defer func() { cancel(); _ = asks.Wait() }() // it was killed
	return k.crashed(why)
}

// crashed waits until the node has crashed, and returns its log.
func (k *keeper) crashed(why string) string {
	k.t.Helper()
	if err := k.exit(1); err == nil {
		k.t.Error("the node has ended in order, and was to crash")
	}
	log := k.log(1)
	if !strings.Contains(log, why) || strings.Count(log, "\ngoroutine ") < 10 || !strings.Contains(log, "[TRACE]") &&
		!strings.Contains(log, "[DEBUG]") {
		k.t.Errorf("the log has no %q, no stacks, or no lines of debugging:\n%s", why, tail(log, 20))
	}
	return log
}

// finds puts each secret in each of its forms into each thing that is shown. All must be found.
func (k *keeper) finds() {
	k.t.Helper()
	for where, text := range k.shown {
		for name, secret := range k.secrets {
			for _, form := range forms(secret) {
				half := len(text) / 2
				planted := map[string]string{where: text[:half] + form + text[half:]}
				if found := leaks(planted, map[string]string{name: secret}); len(found) != 1 {
					k.t.Errorf("%s as %q in %s: %d leaks were found, want 1", name, form, where, len(found))
				}
			}
		}
	}
}
