package main

import (
	"slices"
	"strings"
	"testing"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
)

// tokenFromInput is the one argument about files that names none.
const tokenFromInput = "--token-file=-"

// FuzzArguments runs the program with any arguments, one on each line, after Ctrl-C. The program ends at once with one
// of its exit codes, and gives a reason unless the code is 0.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{
		"id\nencode\n--node\n1\n--time\n2026-11-21T12:00:00Z", "id\nencode\n--node\n255\n--ms\n18446744073709551615",
		"session\nopen\n--label\na=b\n--label\na=c",
		"session\nshow\n0x1", "session\nclose\n" + fakenode.TokenText, "session\ntouch\n" + tokenFromInput,
		"session\nls\n--owner\n255\n--min-age\n-1h", "session\nhold\n--timeout=0s",
		"cluster\nmembers\n-o\njson\n--endpoints\n,,:,[", "__complete\nsession\n", "version", "", "help\nid",
		"session\nhold\n--\n-x",
		"id\nnew\n--layout\nsnowflake\n--datacenter=1\n--worker=31\n--count=100000\n-o\njson",
		"id\nzxid\n--term=4294967296\n--index=1", "id\nzxid\n0x300000010",
		"id\nnew\n--layout=snowflake\n--policy=switch-worker\n--spares=1,1\n--datacenter=0\n--worker=0",
		"id\nencode\n--layout=zookeeper\n--server=256",
		"ping\n--count\n3\n--interval\n0s",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arguments string) {
		args := slices.DeleteFunc(strings.Split(arguments, "\n"), func(arg string) bool {
			return strings.Contains(arg, "file") && arg != tokenFromInput // it would name a file of the machine
		})
		code, _, errOut := clitest.RunFuzzed(t, args...)
		if code < cli.ExitDone || code > cli.ExitUnreachable || code != cli.ExitDone && errOut == "" {
			t.Errorf("%q: exit code %d, %q", args, code, errOut)
		}
	})
}
