//go:build e2e

package zk

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/test/timeout"
)

const (
	// talkWait bounds a dialogue.
	talkWait = time.Minute
	zkCLI    = "org.apache.zookeeper.ZooKeeperMain"
	// cliMT is the C client's, of Debian's zookeeper-bin.
	cliMT = "/usr/lib/zookeeper/bin/cli_mt"
	// fewCommands is less than either offers.
	fewCommands = 12
)

// TestCommandLines has the same dialogue with ZooKeeper and with a node, through ZooKeeper's two command-line clients,
// and compares what they say. The scripts have each command that the clients offer.
func TestCommandLines(t *testing.T) {
	need(t, cliMT, "zookeeper-bin")
	theirs, ours := zookeeper(t), holdfast(t)
	t.Run("zkCli", func(t *testing.T) {
		script := scriptOf(t, "zkcli.txt")
		_, help := java(t, ours.addresses[0], "help")
		offers(t, script, regexp.MustCompile(`(?m)^\t(\w+)`), help)
		text, refusals := java(t, theirs.addresses[0], strings.Join(script, "\n"))
		textHere, refusalsHere := java(t, ours.addresses[0], strings.Join(script, "\n"))
		text, events := takeEvents(text)
		textHere, eventsHere := takeEvents(textHere)
		sameLines(t, "output", plain(textHere), plain(text))
		sameLines(t, "refusals", plain(refusalsHere), plain(refusals))
		sameLines(t, "events", eventsHere, events)
	})
	t.Run("cli_mt", func(t *testing.T) {
		script := scriptOf(t, "climt.txt")
		out := cLanguage(t, theirs.addresses[0], script)
		offers(t, script, regexp.MustCompile(`(?m)^    (\w+)(?: [\[<].*)?$`), out)
		sameLines(t, "output", plain(cLanguage(t, ours.addresses[0], script)), plain(out))
	})
}

func scriptOf(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	timeout.Check(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// offers holds a script against the commands that a client offers.
func offers(t *testing.T, script []string, command *regexp.Regexp, help string) {
	t.Helper()
	all := command.FindAllStringSubmatch(help, -1)
	if len(all) < fewCommands {
		t.Fatalf("the client offers %q", all)
	}
	for _, one := range all {
		if !slices.ContainsFunc(script, func(line string) bool { return strings.Fields(line)[0] == one[1] }) {
			t.Errorf("the client offers %s, which the script lacks", one[1])
		}
	}
}

// java has a dialogue through zkCli, which answers each command before it reads the next. @ is the server's address.
func java(t *testing.T, address, text string) (out, refusals string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), talkWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, "java", "-Xmx128m", "-cp", jar, zkCLI, "-server", address)
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(text, "@", address) + "\n")
	var one, two bytes.Buffer
	cmd.Stdout, cmd.Stderr = &one, &two
	if err := cmd.Run(); err != nil && ctx.Err() != nil { // it fails too if its last command does
		t.Fatalf("%v: %s%s", err, &one, &two)
	}
	return strings.ReplaceAll(one.String(), address, "@"), strings.ReplaceAll(two.String(), address, "@")
}

// cLanguage has a dialogue through cli_mt, which reads commands before it has the answers to those before. So each is
// followed by a read whose answer is waited for.
func cLanguage(t *testing.T, address string, script []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), talkWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, "stdbuf", "-oL", cliMT, address)
	in, err := cmd.StdinPipe()
	timeout.Check(t, err)
	from, err := cmd.StdoutPipe()
	timeout.Check(t, err)
	cmd.Stderr = cmd.Stdout
	timeout.Check(t, cmd.Start())
	lines := bufio.NewScanner(from)
	var all []string
	until := func(last string) {
		for lines.Scan() {
			if strings.Contains(lines.Text(), ":ZOO_") { // a log line
				continue
			}
			if all = append(all, lines.Text()); strings.HasPrefix(lines.Text(), last) {
				return
			}
		}
		t.Fatalf("no %q: %q", last, all)
	}
	until("Got a new session id")
	for i, command := range append([]string{"help"}, script...) {
		if _, err := fmt.Fprintln(in, command); err != nil {
			t.Fatal(err)
		}
		if command == "quit" || command == "verbose" { // with its log between the lines no mark is found
			continue
		}
		// A read of nothing is the mark: of data, whose answer has several lines.
		_, _ = fmt.Fprintf(in, "get /mark-%d\n", i)
		until(fmt.Sprintf("/mark-%d: rc = -101", i))
		until("null") // its stat
	}
	for lines.Scan() { // until it ends
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %q", err, all)
	}
	return strings.ReplaceAll(strings.Join(all, "\n"), address, "@")
}

// varying are what differs from run to run, and what stands for it.
var varying = []struct {
	pattern *regexp.Regexp
	as      string
}{
	{regexp.MustCompile(`0x[0-9a-f]*[1-9a-f][0-9a-f]*`), "0x#"},
	{regexp.MustCompile(`(zxid|ephemeralOwner|session Id) ?= ?[0-9a-f]*[1-9a-f][0-9a-f]*`), "$1=#"},
	{regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} (\w+ )?\d{4}`), "TIME"},
	{regexp.MustCompile(`\d+ msec`), "# msec"},
	// zkCli says these from two threads while it connects.
	{regexp.MustCompile(`(?m)^(Welcome to ZooKeeper!|JLine support is disabled|Connecting to .*)\n`), ""},
}

// plain returns the lines of a text without what differs from run to run. Lists that have no order are sorted.
func plain(text string) []string {
	for _, one := range varying {
		text = one.pattern.ReplaceAllString(text, one.as)
	}
	lines := strings.Split(text, "\n")
	listed := regexp.MustCompile(`^\t[^=]+$|^(super|digest|ip): `) // children in cli_mt, and who is asking in zkCli
	for from := 0; from < len(lines); from++ {
		to := from
		for to < len(lines) && listed.MatchString(lines[to]) {
			to++
		}
		if to > from {
			slices.Sort(lines[from:to])
			from = to
		}
	}
	return lines
}

// told is how zkCli says that it was told of an event. A thread of its own does, in the middle of other lines at times.
var told = regexp.MustCompile(`\nWATCHER::\n|\nWatchedEvent .*\n`)

// takeEvents takes out what zkCli says of events.
func takeEvents(text string) (left string, events []string) {
	for _, one := range told.FindAllString(text, -1) {
		// It may be quicker than the last event.
		if strings.Contains(one, "WatchedEvent") && !strings.Contains(one, "state:Closed") {
			events = append(events, strings.TrimSpace(one))
		}
	}
	return told.ReplaceAllString(text, ""), events
}

// sameLines compares lines.
func sameLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	const shown = 10
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("%s from line %d on:\n%s\n\nZooKeeper:\n%s", what, i+1,
				strings.Join(got[min(i, len(got)):min(i+shown, len(got))], "\n"),
				strings.Join(want[min(i, len(want)):min(i+shown, len(want))], "\n"))
			return
		}
	}
	t.Logf("%s: %d lines are the same", what, len(want))
}
