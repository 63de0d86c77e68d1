package raftnet

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
)

func settings(local, upgrade string) []Setting {
	return []Setting{{"local_sessions", local, "off"}, {"local_session_upgrade", upgrade, "on"}}
}

// TestL9OneSettingPerCluster holds that nodes with different settings do not speak to each other, whichever dials, and
// that both logs name the setting and both values.
func TestL9OneSettingPerCluster(t *testing.T) {
	for name, tt := range map[string]struct {
		one, other []Setting
		// The reason that the dialled node gives: as node 1 puts it, and as node 2 does. Empty: the settings agree.
		ones, others string
	}{
		"both off":     {settings("off", "on"), settings("off", "on"), "", ""},
		"both on":      {settings("on", "off"), settings("on", "off"), "", ""},
		"none and off": {nil, settings("off", "on"), "", ""},
		"off and on": {
			settings("off", "on"), settings("on", "on"), `local_sessions is "on" on node 2 and "off" on node 1`,
			`local_sessions is "off" on node 1 and "on" on node 2`,
		},
		"upgrades": {
			settings("on", "on"), settings("on", "off"), `local_session_upgrade is "off" on node 2 and "on" on node 1`,
			`local_session_upgrade is "on" on node 1 and "off" on node 2`,
		},
		"a new setting": {
			nil, settings("on", "on"), `local_sessions is "on" on node 2, and node 1 does not know that setting`,
			"local_sessions is \"off\" on node 1 and \"on\" on node 2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				network := pipes{}
				layer := func(address string, node session.Node, settings []Setting) (*Layer, *porttest.LogBuffer) {
					log := &porttest.LogBuffer{}
					return New(Config{
						ClusterID: "c", Node: node, Advertise: address, Listener: network.listen(address),
						Dial: network.dial, Settings: settings,
						Logger: hclog.New(&hclog.LoggerOptions{Output: log}),
					}), log
				}
				a, aLog := layer("a", 1, tt.one)
				b, bLog := layer("b", 2, tt.other)
				for _, dial := range []struct {
					from, to      *Layer
					address, want string
				}{{a, b, "b", tt.others}, {b, a, "a", tt.ones}} {
					accepted := accepting(dial.to)
					conn, err := dial.from.Dial(raft.ServerAddress(dial.address), time.Second)
					if dial.want == "" {
						if err != nil {
							t.Fatalf("Dial: %v", err)
						}
						(<-accepted).Close()
						conn.Close()
						continue
					}
					if !errors.Is(err, session.ErrWrongCluster) || !strings.Contains(err.Error(), dial.want) {
						t.Errorf("dialling %s: %v, want %q", dial.address, err, dial.want)
					}
					time.Sleep(refusalLogInterval + 1) // the next refusal is logged too
				}
				closeAll(t, a, b)
				for _, log := range []*porttest.LogBuffer{aLog, bLog} {
					text := strings.ReplaceAll(log.String(), `\"`, `"`)
					if tt.ones == "" && strings.Contains(text, "refused") {
						t.Errorf("refused:\n%s", text)
					}
					for _, want := range []string{tt.ones, tt.others} {
						if !strings.Contains(text, want) {
							t.Errorf("the log does not say %q:\n%s", want, text)
						}
					}
				}
			})
		})
	}
}

// TestSettingsInTheGreeting: settings with their defaults are not sent.
func TestSettingsInTheGreeting(t *testing.T) {
	for want, all := range map[string][]Setting{
		"c":                   settings("off", "on"),
		"c local_sessions=on": settings("on", "on"),
		"c local_sessions=on local_session_upgrade=off": settings("on", "off"),
	} {
		l := New(Config{ClusterID: "c", Node: 2, Settings: all})
		if got, err := readGreeting(bytes.NewReader(l.greeting(codeHello).bytes())); err != nil || got.text != want {
			t.Errorf("the greeting says %q, %v; want %q", got.text, err, want)
		}
	}
}
