package id

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
)

func TestIDTables(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"id decode --form base62 05K1WLnfyEB", `
ID           NODE  TIME                      COUNTER
05K1WLnfyEB  1     2026-01-01T00:00:00.001Z  7`},
		{"id encode --form base36 --node 1 --ms 1 --counter 7", `
ID             NODE  TIME                      COUNTER
00jpia9pm9ybr  1     2026-01-01T00:00:00.001Z  7`},
		{"id decode --layout snowflake 1541815603606036480 0x1565a11f6217a000", `
ID                   TIME                      DATACENTER  WORKER  SEQUENCE
1541815603606036480  2022-06-28T16:07:40.105Z  11          26      0
1541815603606036480  2022-06-28T16:07:40.105Z  11          26      0`},
		{"id decode --layout snowflake --epoch 2015-01-01T00:00:00Z 175928847299117063", `
ID                  TIME                      DATACENTER  WORKER  SEQUENCE
175928847299117063  2016-04-30T11:18:25.796Z  1           0       7`},
		{"id decode --layout snowflake --epoch 1420070400000 --rollback-bits 2 175928847299120135", `
ID                  TIME                      DATACENTER  WORKER  ROLLBACK  SEQUENCE
175928847299120135  2016-04-30T11:18:25.796Z  1           0       3         7`},
		{"id encode --layout snowflake --time 2022-06-28T16:07:40.105Z --datacenter 11 --worker 26 --form hex", `
ID                TIME                      DATACENTER  WORKER  SEQUENCE
1565a11f6217a000  2022-06-28T16:07:40.105Z  11          26      0`},
		{"id decode --layout zookeeper 0x10000295bb80000", `
ID                  SERVER  CLOCK       COUNTER
0x010000295bb80000  1       45m10.456s  0
0x010000295bb80000: by a server before 3.5, which used wall time, that started at 2004-11-03T20:38:58.232Z`},
		{"id encode --layout zookeeper --server 1 --ms 2710456 --counter 3", `
ID                  SERVER  CLOCK       COUNTER
0x010000295bb80003  1       45m10.456s  3
0x010000295bb80003: by a server before 3.5, which used wall time, that started at 2004-11-03T20:38:58.232Z`},
		{"id zxid --term 3 --index 16", `
ZXID         TERM  COUNTER  USED
0x300000010  3     16       3.725e-07 %`},
		{"id zxid 0x7ffffffff 7fffffffe", `
ZXID         TERM  COUNTER     USED
0x7ffffffff  7     4294967295  100 %
0x7fffffffe  7     4294967294  100 %`},
	} {
		code, stdout, stderr := clitest.Execute(t, "", strings.Fields(tt.args)...)
		if code != cli.ExitDone || stderr != "" {
			t.Errorf("%s: exit code %d, %s", tt.args, code, stderr)
		}
		clitest.WantOutput(t, stdout, tt.want)
	}
}

func TestIDJSON(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{
			"id decode --layout snowflake 1541815603606036480",
			`[{"id":"1541815603606036480","ms":367597485448,"time":"2022-06-28T16:07:40.105Z",
			"datacenter":11,"worker":26,"sequence":0}]`,
		},
		{
			"id encode --layout zookeeper --server 128",
			`[{"id":"0x8000000000000000","server":128,"ms":0,"counter":0,"notes":["marks a container, no session"]}]`,
		},
		{
			"id zxid --term 3 --index 4294967312",
			`[{"zxid":"0x300000010","term":3,"index":4294967312,"counter":16,"used":3.725290298461914e-09}]`,
		},
	} {
		code, stdout, stderr := clitest.Execute(t, "", append(strings.Fields(tt.args), "-o", "json")...)
		if code != cli.ExitDone || stderr != "" {
			t.Errorf("%s: exit code %d, %s", tt.args, code, stderr)
		}
		clitest.WantOutput(t, clitest.Canonical(t, stdout), clitest.Canonical(t, tt.want))
	}
	// The fields of an id in JSON are in the order of its bits.
	_, stdout, _ := clitest.Execute(t, "", "id", "decode", "-o", "json", "0x0100000000010007")
	clitest.WantOutput(t, strings.Join(strings.Fields(stdout), ""),
		`[{"id":"0x0100000000010007","node":1,"ms":1,"time":"2026-01-01T00:00:00.001Z","counter":7}]`)
}

func TestIDExitCodes(t *testing.T) {
	for _, tt := range []struct {
		args string
		want int
		says string
	}{
		{"id encode --node 255", cli.ExitUsage, `--node "255": want a whole number, 1 to 254`},
		{"id encode --node 1 --worker 1", cli.ExitUsage, "--worker: want a field of layout holdfast: node, ms, counter"},
		{"id encode --node 1 --time yesterday", cli.ExitUsage, "2026-11-21T12:00:00Z"},
		{"id encode --layout zookeeper --time 2026-11-21T12:00:00Z", cli.ExitUsage, "no wall-clock time"},
		{"id encode --layout zookeeper --server 256", cli.ExitUsage, `--server "256": want a whole number, 0 to 255`},
		{
			"id encode --layout snowflake --sequence 4096", cli.ExitUsage,
			`--sequence "4096": want a whole number, 0 to 4095`,
		},
		{"id encode --layout snowflake --rollback-bits 1 --sequence 4095", cli.ExitUsage, "--sequence: want 0 to 2047"},
		{"id encode --node 1 --ms 2199023255551", cli.ExitUsage, "--ms: want 0 to 1099511627775"},
		{"id encode --datacenter -3", cli.ExitUsage, `--datacenter "-3": want a whole number, 0 to 31`},
		{"id decode --layout twitter 1", cli.ExitUsage, "holdfast, zookeeper or snowflake"},
		{"id decode --form base64 1", cli.ExitUsage, "--form: want one of"},
		{"id decode --form base62 LygHa16AHYG", cli.ExitUsage, "LygHa16AHYF"},
		{"id decode --epoch 0 1", cli.ExitUsage, "only snowflakes"},
		{"id decode --layout snowflake --epoch yesterday 1", cli.ExitUsage, "Unix milliseconds"},
		{"id decode --layout snowflake --epoch -1 1", cli.ExitUsage, "--epoch: want whole milliseconds"},
		{"id decode --layout snowflake --epoch 0001-01-01T00:00:00Z 1", cli.ExitUsage, "--epoch: want whole milliseconds"},
		{"id decode --layout snowflake --epoch -62135596800000 1", cli.ExitUsage, "--epoch: want whole milliseconds"},
		{
			"id decode --layout snowflake --rollback-bits 9 1", cli.ExitUsage,
			`--rollback-bits "9": want a whole number, 0 to 8`,
		},
		{"id decode --layout snowflake 9223372036854775808", cli.ExitUsage, "63 bits"},
		{"id new --layout holdfast", cli.ExitUsage, "holdfast session open"},
		{"id new --layout zookeeper", cli.ExitUsage, "ZooKeeper server"},
		{"id new --layout snowflake --worker 1", cli.ExitUsage, "datacenter"},
		{
			"id new --layout snowflake --datacenter 32 --worker 1", cli.ExitUsage,
			`--datacenter "32": want a whole number, 0 to 31`,
		},
		{"id new --layout snowflake --datacenter 1 --worker 1 --count 0", cli.ExitUsage, "1 to 100000"},
		{
			"id new --layout snowflake --datacenter 1 --worker 1 --policy hope", cli.ExitUsage,
			"refuse wait switch-worker rollback-bits",
		},
		{"id new --layout snowflake --datacenter 1 --worker 1 --policy switch-worker", cli.ExitUsage, "--spares: want"},
		{"id new --layout snowflake --datacenter 1 --worker 1 --rollback-bits 2", cli.ExitUsage, "--rollback-bits: want"},
		{"id new --layout snowflake --datacenter 1 --worker 1 --epoch 2999-01-01T00:00:00Z", cli.ExitFailed, "69.7 years"},
		{"id zxid", cli.ExitUsage, "--term and --index"},
		{"id zxid --term 1", cli.ExitUsage, "index"},
		{"id zxid --term 1 --index 2 0x1", cli.ExitUsage, "--term and --index"},
		{"id zxid --term 4294967296 --index 2", cli.ExitUsage, `--term "4294967296": want a whole number, 0 to 4294967295`},
		{"id zxid zz", cli.ExitUsage, "hexadecimal"},
	} {
		code, stdout, stderr := clitest.Execute(t, "", strings.Fields(tt.args)...)
		if code != tt.want || !strings.Contains(stderr, tt.says) || stdout != "" {
			t.Errorf("%s: exit code %d, want %d; %q; stderr %q, want %q in it", tt.args, code, tt.want, stdout, stderr,
				tt.says)
		}
	}
}

func TestIDNewMakesSnowflakes(t *testing.T) {
	begin := time.Now().Truncate(time.Millisecond)
	code, stdout, stderr := clitest.Execute(t,
		"", strings.Fields("id new --layout snowflake --datacenter 3 --worker 7 --count 5000 -o json")...)
	var made struct {
		IDs []struct {
			ID         string    `json:"id"`
			Time       time.Time `json:"time"`
			Datacenter uint64    `json:"datacenter"`
			Worker     uint64    `json:"worker"`
		} `json:"ids"`
		Derived bool   `json:"derived"`
		Terms   string `json:"terms"`
	}
	if err := json.Unmarshal([]byte(stdout), &made); err != nil || code != cli.ExitDone || stderr != "" {
		t.Fatalf("exit code %d, %s, %v in %s", code, stderr, err, stdout)
	}
	if len(made.IDs) != 5000 || made.Derived || !strings.Contains(made.Terms, "datacenter 3, worker 7") {
		t.Errorf("%d ids, %t, %s", len(made.IDs), made.Derived, made.Terms)
	}
	newest := uint64(0)
	for _, one := range made.IDs {
		id, err := strconv.ParseUint(one.ID, 10, 64)
		if err != nil || id <= newest || one.Datacenter != 3 || one.Worker != 7 || !one.Time.After(begin) ||
			one.Time.After(time.Now()) {
			t.Fatalf("%+v after %d, %v", one, newest, err)
		}
		newest = id
	}
}

// The standard output has the ids alone, for scripts. The terms go to the standard error.
func TestIDNewSaysOnWhichTerms(t *testing.T) {
	for args, says := range map[string]string{
		"id new --layout snowflake --form base62 --count 3 --datacenter 0 --worker 31": "datacenter 0, worker 31",
		"id new --layout snowflake --form base62 --count 3 --datacenter 0 --worker 1 --policy switch-worker --spares " +
			"2,3": "worker 1 and the spares [2 3]",
		"id new --layout snowflake --form base62 --count 3 --datacenter 0 --worker 1 --policy rollback-bits " +
			"--rollback-bits 2": "as long as",
	} {
		code, stdout, stderr := clitest.Execute(t, "", strings.Fields(args)...)
		lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
		if code != cli.ExitDone || len(lines) != 3 || !slices.IsSorted(lines) || len(slices.Compact(lines)) != 3 ||
			len(lines[0]) != 11 ||
			!strings.HasPrefix(stderr, "Unique as long as ") || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

// Ctrl-C ends "id new" even while no id has to wait for the next millisecond.
func TestIDNewEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	code := clitest.Run(ctx, strings.Fields("id new --layout snowflake --datacenter 1 --worker 1 --count 100000"), nil,
		&stdout, &stderr)
	if code != cli.ExitFailed || stdout.Len() > 0 || !strings.Contains(stderr.String(), context.Canceled.Error()) {
		t.Errorf("exit code %d, %d bytes, %s", code, stdout.Len(), stderr.String())
	}
}

// Without flags "id new" derives the machine's numbers and prints them. It refuses if the machine has no MAC address.
func TestIDNewDerivesTheMachine(t *testing.T) {
	code, stdout, stderr := clitest.Execute(t, "", "id", "new")
	_, err := deriveMachine()
	switch {
	case err != nil:
		if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, "--datacenter and --worker") {
			t.Errorf("no MAC address: exit code %d, %q, %q", code, stdout, stderr)
		}
	case code != cli.ExitDone || len(stdout) < 18 || !strings.HasPrefix(stderr, "Unique only if ") ||
		!strings.Contains(stderr, "MAC address"):
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
}
