//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/test/timeout"
)

// TestPageOnProcesses types the commands in the text of docs/operations: looks at a cluster and its sessions, ends
// and keeps sessions, drains a node, and changes the members.
func TestPageOnProcesses(t *testing.T) {
	t.Parallel()
	p := newProcesses(t, 4)
	all := p.peers
	p.c.nodes, p.peers = 3, all[:strings.LastIndex(all, ",")]
	for _, n := range p.c.all() {
		p.start(n)
	}
	p.c.awaitServing(healWithin, p.c.all()...)
	d := newDrill(t, p.c)
	d.looks(p)
	d.sessions()
	p.peers = all
	d.members(p)
}

// shows is says for a command whose output must have some words.
func (d *drill) shows(want, command, more string, replacing ...string) {
	d.t.Helper()
	if out := d.says(command, more, replacing...); !strings.Contains(out, want) {
		d.t.Errorf("%s: want %q in\n%s", command, want, out)
	}
}

// looks looks at a cluster in which all is well, and saves its state.
func (d *drill) looks(p *processes) {
	d.t.Helper()
	d.says("node health --address HOST:7403", "", "HOST:7403", p.at(1, 3))
	d.shows("SESSIONS", "holdfast cluster status", "")
	d.shows(`"state_digest"`, "holdfast cluster status -o json", "")
	d.shows("LEADER", "holdfast cluster members", "")
	d.shows("UTC", "date -u", "")
	d.says("df", p.data(1))
	d.shows(p.data(1), "du -s", p.data(1))
	d.shows("which may be stale", "holdfast snapshot save --local", "local.backup")
	d.runs("holdfast create /page && holdfast create /page/below", "")
	d.says("holdfast rm -r", "/page")
	if out, err := d.tries("holdfast get /page", ""); err == nil {
		d.t.Errorf("the entry is still there:\n%s", out)
	}
	ids := regexp.MustCompile(`0x[0-9a-f]+`).FindString(d.says("holdfast id allocate", ""))
	d.shows("COUNTER", "holdfast id decode", ids)
}

// sessions looks at sessions, keeps one, and ends some.
func (d *drill) sessions() {
	d.t.Helper()
	var ids []string
	for _, label := range []string{"service=web", "service=web", "service=db"} {
		var s shown
		out := d.runs("holdfast session open --timeout 60s -o json --label "+label, "")
		timeout.Check(d.t, json.Unmarshal([]byte(out), &s))
		ids = append(ids, s.ID)
	}
	at := d.c.address(2)
	d.runs("holdfast session open --timeout 60s --label service=other --endpoints "+at, "")
	d.shows(ids[2], "holdfast session ls", "")
	d.shows(ids[2], "holdfast session ls --max-age 1m", "")
	d.shows(ids[0], "holdfast session ls --label service=web", "")
	d.shows("service=other", "holdfast session ls --owner 2", "")
	d.shows("touch", "holdfast session explain ID", "", "ID", ids[0])
	d.says("holdfast session extend ID --for 10m", "", "ID", ids[2])
	d.shows("extended", "holdfast session explain ID", "", "ID", ids[2])
	for _, freeze := range []string{
		`holdfast cluster freeze --for 30m --reason "..."`, `holdfast cluster freeze --for 30m --reason "new switches"`,
	} {
		d.says(freeze, "")
		if out := d.runs("holdfast cluster status 2>&1", ""); !strings.Contains(out, "frozen") {
			d.t.Errorf("after %s:\n%s", freeze, out)
		}
		d.says("holdfast cluster thaw", "")
	}
	d.shows("2 sessions would be killed", "holdfast session kill --label service=web --dry-run", "")
	d.ends(ids[:2])
	d.shows("1 of 1 sessions killed", "holdfast session kill --principal NAME", "--yes", "NAME", d.held())
	d.shows(ids[0], "holdfast session deaths --since 1h", "")
	d.shows("stuck since the deploy", "holdfast session explain ID", "", "ID", ids[0])
	if out := d.runs("holdfast session ls", ""); !strings.Contains(out, ids[2]) || strings.Contains(out, ids[0]) {
		d.t.Errorf("after the kill:\n%s", out)
	}
}

// ends kills sessions, while somebody watches.
func (d *drill) ends(ids []string) {
	d.t.Helper()
	out := d.runs(fmt.Sprintf(`%s >watched 2>&1 &
watching=$!
until holdfast session open --timeout 60s --label by=probe >probe && grep -q opened watched; do sleep 0.2; done
%s --yes
until grep -q '%s.*killed' watched; do sleep 0.2; done
kill -INT $watching
wait $watching || true`, d.page.Inline("holdfast session watch"),
		d.page.Inline(`holdfast session kill --label service=web --reason "stuck since the deploy"`), ids[1]), "")
	for _, id := range ids {
		if !strings.Contains(out, id) {
			d.t.Errorf("session %s is not among those that were killed:\n%s", id, out)
		}
	}
}

// held has a session of a client with a connection, at a node to which no endpoint of the person leads at first, and
// returns the principal for which the node vouches. The client ends when its session does.
func (d *drill) held() (principal string) {
	d.t.Helper()
	d.runs("holdfast session keep-alive --timeout 30s --label by=principal --endpoints "+d.c.address(3)+" >held 2>&1 & "+
		"until grep -q connected held; do sleep 0.2; done", "")
	if out := d.says("holdfast cluster connections", "--principal ip:127.0.0.1"); !strings.Contains(out, "ip:127.0.0.1") {
		d.t.Errorf("connections:\n%s", out)
	}
	return "ip:127.0.0.1"
}

// members drains a node, takes a fourth in, gives it a vote, lets it lead, takes its vote and removes it.
func (d *drill) members(p *processes) {
	d.t.Helper()
	d.types("drain", "")
	d.says("holdfast cluster drain NODE", "&& holdfast cluster undrain 3", "NODE", "3")
	p.start(4, "--join")
	p.c.await(healWithin, "node 4 waits", func() (bool, string) {
		return strings.Contains(p.log(4), "holdfast cluster add 4"), p.log(4)
	})
	d.says("holdfast cluster add NODE HOST", fmt.Sprintf("--raft-address %s --peer-address %s --client-address %s",
		p.at(4, 1), p.at(4, 2), p.at(4, 0)), "NODE", "4", "HOST", "127.0.0.1")
	d.shows("node 4 is a voter", "holdfast cluster promote NODE", "", "NODE", "4")
	p.c.nodes = 4
	p.c.awaitServing(healWithin, p.c.all()...)
	d.says("holdfast cluster transfer-leader [NODE]", "", "[NODE]", "4")
	if leader := p.c.awaitServing(healWithin, p.c.all()...); leader != 4 {
		d.t.Errorf("node %d leads, want 4", leader)
	}
	d.says("holdfast cluster transfer-leader [NODE]", "", "[NODE]", "1")
	p.c.awaitServing(healWithin, p.c.all()...)
	d.shows("node 4 is an observer", "holdfast cluster demote NODE", "", "NODE", "4")
	d.shows("node 4 is not a member", "holdfast cluster remove NODE --yes", "", "NODE", "4")
	p.c.nodes = 3
	p.stop(4)
	p.c.awaitServing(healWithin+time.Second, p.c.all()...)
}
