//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestNoSecretOfAProcess looks for bearer tokens, the token of a session and the private key of TLS in what a node and
// the command line show of themselves: logs at trace, titles of processes, tables and JSON, what is said of a backup,
// the metadata of snapshots, and the stacks that a node prints when it crashes.
func TestNoSecretOfAProcess(t *testing.T) {
	t.Parallel()
	p := newProcesses(t, 1)
	dir := t.TempDir()
	must(t, today.holdfast(), "cert", "ca", "--dir", dir)
	must(t, today.holdfast(), "cert", "node", "1", "--dir", dir, "--cluster-id", "holdfast", "--host", "127.0.0.1")
	made := must(t, today.holdfast(), "auth", "token", "new", "ops", "--role", "admin", "--role", "client")
	found := regexp.MustCompile(`(?s)token +(\S+)\nline +(.*?)\n`).FindStringSubmatch(made + "\n")
	if found == nil {
		t.Fatalf("no token in %q", made)
	}
	key, err := os.ReadFile(filepath.Join(dir, "node-1.key"))
	file, roles := filepath.Join(dir, "token"), filepath.Join(dir, "auth.yaml")
	err = errors.Join(err, os.WriteFile(file, []byte(found[1]), 0o600),
		os.WriteFile(roles, []byte("tokens:\n"+found[2]+"\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{"the bearer token": found[1], "the key of TLS": strings.Split(string(key), "\n")[1]}

	p.start(1, today, "--auth", "tokens", "--auth-file", roles, "--client-tls", "require", "--log-level", "trace",
		"--tls-cert", filepath.Join(dir, "node-1.pem"), "--tls-key", filepath.Join(dir, "node-1.key"),
		"--tls-ca", filepath.Join(dir, "ca.pem"))
	p.c.await(healWithin, "the node serves", func() (bool, string) { return p.healthy(1), tail(p.log(1), 5) })
	say := func(args ...string) string {
		return must(t, append([]string{
			today.holdfast(), "--endpoints", p.c.address(1), "--cacert", filepath.Join(dir, "ca.pem"), "--auth-token-file", file,
		}, args...)...)
	}
	opened := say("session", "open", "--timeout", "60s", "-o", "json")
	session := regexp.MustCompile(`"token": *"([^"]+)"`).FindStringSubmatch(opened)
	if session == nil {
		t.Fatalf("no token in %s", opened)
	}
	secrets["the token of the session"] = session[1]
	backup := filepath.Join(dir, "backup")
	shown := map[string]string{"the backup's table": say("snapshot", "save", backup)}
	for _, of := range []string{"session ls", "cluster status", "cluster members", "cluster connections"} {
		shown[of] = say(strings.Fields(of)...)
		shown[of+" -o json"] = say(append(strings.Fields(of), "-o", "json")...)
	}
	shown["the backup's JSON"] = say("snapshot", "inspect", backup, "-o", "json")
	shown["auth token show"] = must(t, today.holdfast(), "auth", "token", "show", roles)
	shown["the title of the node"] = title(t, p.newest[1].cmd.Process.Pid)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch := p.c.cli(ctx, "session", "watch", "--endpoints", p.c.address(1), "--cacert", filepath.Join(dir, "ca.pem"),
		"--auth-token-file", file)
	if err = watch.Start(); err != nil {
		t.Fatal(err)
	}
	shown["the title of a client"] = title(t, watch.Process.Pid)
	cancel()
	_ = watch.Wait() // it was killed
	for range 25 {   // more than the entries after which a node snapshots
		say("session", "open", "--timeout", "60s")
	}
	var metadata []string
	snapshots := filepath.Join(p.data(1), "snapshots", "*[0-9]", "meta.json") // those that are whole
	p.c.await(healWithin, "a snapshot is there", func() (bool, string) {
		metadata, err = filepath.Glob(snapshots)
		return len(metadata) > 0, fmt.Sprint(err)
	})
	if err = p.newest[1].cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if err = p.exit(1); err == nil {
		t.Error("the node has ended in order, and was to crash")
	}
	if metadata, err = filepath.Glob(snapshots); err != nil {
		t.Fatal(err)
	}
	for _, path := range metadata {
		text, failed := os.ReadFile(path)
		if failed != nil {
			t.Fatal(failed)
		}
		shown["the metadata of "+path] = string(text)
	}
	shown["the log"] = p.log(1)
	if !strings.Contains(shown["the log"], "\ngoroutine 1 ") || !strings.Contains(shown["the log"], "[TRACE]") &&
		!strings.Contains(shown["the log"], "[DEBUG]") {
		t.Errorf("the log has no stacks, or no lines of debugging:\n%s", tail(shown["the log"], 20))
	}
	noneIn(t, shown, secrets)
}

// noneIn fails for each secret that is in something that is shown.
func noneIn(t *testing.T, shown, secrets map[string]string) {
	t.Helper()
	for where, text := range shown {
		if text == "" {
			t.Errorf("%s is empty: this test does not look at what it should", where)
		}
		for name, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", name, where)
			}
		}
	}
}

// title returns the words with which a process was started, as other users of the machine see them.
func title(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\x00", " ")
}
