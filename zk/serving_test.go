package zk_test

import (
	"strings"
	"testing"
	"time"

	"holdfast/node/config"
)

// says waits until a node says something to a word.
func says(c *world, node, word, want string) {
	c.T.Helper()
	got := ""
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		if got = say(c, node, word); got == want {
			return
		}
	}
	c.T.Fatalf("%s: %s says %q, want %q", word, node, got, want)
}

// TestWordsOfANodeThatDoesNotServe: a node that knows no leader does not report that it is read-write, nor anything
// that monitoring reads as service.
func TestWordsOfANodeThatDoesNotServe(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		says(c, "n1", "isro", "rw")
		heal := c.Apart()
		defer heal()
		says(c, "n1", "isro", "null")
		for _, word := range words() {
			got, unserved := say(c, "n1", word), "This ZooKeeper instance is not currently serving requests\n"
			switch word {
			case "ruok", "envi", "isro":
				if got == "" || got == unserved {
					t.Errorf("%s: %q", word, got)
				}
			default:
				if got != unserved {
					t.Errorf("%s: %q, want %q", word, got, unserved)
				}
			}
		}
		heal()
		says(c, "n1", "isro", "rw")
	})
}

// TestReadOnlyNodesReportTheirMode: a client of a read-only server finds a read-write server by the word isro. So a
// node that may be read-only answers isro though zk_4lw_commands do not name it, and no other word.
func TestReadOnlyNodesReportTheirMode(t *testing.T) {
	const refused = " is not executed because it is not in the whitelist.\n"
	for _, one := range []struct {
		readOnly        bool
		before, without string
	}{
		{true, "rw", "ro"},
		{false, "isro" + refused, "isro" + refused},
	} {
		runWith(t, func(cfg *config.Config) {
			cfg.Sessions.Local, cfg.ReadOnly, cfg.ZooKeeper.FourLetterCommands = true, one.readOnly, "srvr"
		}, func(c *world) {
			t := c.T
			says(c, "n1", "isro", one.before)
			for word, want := range map[string]string{"srvr": "Mode: ", "ruok": "ruok" + refused} {
				if got := say(c, "n1", word); !strings.Contains(got, want) {
					t.Errorf("%s: %q, want %q in it", word, got, want)
				}
			}
			heal := c.Apart()
			defer heal()
			says(c, "n1", "isro", one.without)
		})
	}
}
