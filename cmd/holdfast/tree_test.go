package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/client"
	"holdfast/session"
	"holdfast/session/words"
	"holdfast/tree"
)

// binary is data that no terminal may get as it is: it has zeros, bytes that are no UTF-8, and what terminals obey.
const binary = "\x00\xff\xfe" + hostile + "\n"

// filled makes entries of several kinds. It returns the session of the ephemeral one.
func filled(t *testing.T, c *client.Client) session.ID {
	t.Helper()
	s, tr := heldTree(t, c)
	for _, e := range []struct {
		path, data string
		kind       tree.Kind
	}{
		{"/app", "", tree.Persistent},
		{"/app/blob", binary, tree.Persistent},
		{"/app/jobs", "", tree.Container},
		{"/app/jobs/one", "1", tree.Persistent},
		{"/app/web", "host", tree.Ephemeral},
	} {
		if _, err := tr.Create(t.Context(), e.path, []byte(e.data), client.CreateOptions{Kind: e.kind}); err != nil {
			t.Fatal(err)
		}
	}
	return s.ID()
}

// succeed runs a command line that must succeed, and returns what it printed.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := execute(t, "", patient(args)...)
	if code != exitDone {
		t.Fatalf("%q: exit code %d, %s", args, code, stderr)
	}
	return stdout
}

// patient gives the calls of a command a minute, for a busy machine, unless the command line says otherwise.
func patient(args []string) []string {
	if slices.Contains(args, "--call-timeout") {
		return args
	}
	end := slices.Index(args, "--") // what follows is another program's
	if end < 0 {
		end = len(args)
	}
	return slices.Insert(slices.Clone(args), end, "--call-timeout", "1m")
}

func TestTreeIsRead(t *testing.T) {
	id := filled(t, startTree(t))
	if got := succeed(t, "get", "/app/blob"); got != binary {
		t.Errorf("got %q, want the data byte for byte", got)
	}
	var v entryView
	if err := json.Unmarshal([]byte(succeed(t, "get", "/app/blob", "-o", "json")), &v); err != nil {
		t.Fatal(err)
	}
	data, err := base64.StdEncoding.DecodeString(*v.Data)
	if err != nil || string(data) != binary || v.Stat.Bytes != len(binary) {
		t.Errorf("got %q, %v, %+v", data, err, v.Stat)
	}
	if got := succeed(t, "get", "/app/web", "--stat", "--linearizable"); !strings.Contains(got, "ephemeral") ||
		!strings.Contains(got, id.String()) {
		t.Errorf("got %s", got)
	}
	wantOutput(t, succeed(t, "ls", "/app"), "blob\njobs\nweb")
	ages := regexp.MustCompile(`\d+s\n`)
	wantOutput(t, ages.ReplaceAllString(succeed(t, "ls", "-l", "/app")+"\n", "0s\n"), `
NAME  KIND        VERSION  SIZE  CHILDREN  OWNER               AGE
blob  persistent  0        `+words.Bytes(uint64(len(binary)))+`   0         -                   0s
jobs  container   0        0B    1         -                   0s
web   ephemeral   0        4B    0         `+id.String()+`  0s`)
	left := regexp.MustCompile(`has [0-9.]+s left`)
	wantOutput(t, left.ReplaceAllString(succeed(t, "tree", "/app"), "has 30s left"), `
/app
├── blob  (`+words.Bytes(uint64(len(binary)))+`)
├── jobs  (container)
│   └── one  (1B)
└── web  (session `+id.String()+` has 30s left, 4B)`)
	if got := succeed(t, "tree", "/app", "--depth", "1"); strings.Contains(got, "one") || !strings.Contains(got, "jobs") {
		t.Errorf("one level:\n%s", got)
	}
	if code, stdout, stderr := execute(t, "", "tree", "/app", "--most", "2"); code != exitDone ||
		strings.Count(stdout, "\n") != 2 || !strings.Contains(stderr, "more than 2 entries") {
		t.Errorf("two entries: exit code %d, %s\n%s", code, stderr, stdout)
	}
	if code, _, stderr := execute(t, "", "get", "/app/none"); code != exitFailed ||
		stderr != "holdfast: get /app/none: the entry does not exist (NO_NODE)\n" {
		t.Errorf("no entry: exit code %d, %s", code, stderr)
	}
}

// No data changes a terminal, and none is lost where no person reads it.
func TestDataDoesNotReachTheTerminalAsItIs(t *testing.T) {
	var out bytes.Buffer
	p := &printer{stdout: &out, terminal: true}
	if err := p.printData([]byte(binary)); err != nil {
		t.Fatal(err)
	}
	want := `\x00\xff\xfe\x1b]0;owned\a\rx\u009b2J` + "\ny\tz" + `\u202e` + "\n"
	if got := out.String(); got != want {
		t.Errorf("a terminal gets %q, want %q", got, want)
	}
	out.Reset()
	p.terminal = false
	if err := p.printData([]byte(binary)); err != nil || out.String() != binary {
		t.Errorf("a pipe gets %q, %v", out.String(), err)
	}
}
