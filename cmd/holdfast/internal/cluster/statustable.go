package cluster

import (
	"fmt"
	"slices"
	"strings"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/session/words"
)

// statusText shows the status of the nodes for people: a table of roles, a table of contents, and notes below them.
// causes says in a few words why an endpoint did not answer. A row fits a terminal of 80 columns unless the name of an
// endpoint is longer than 19 characters.
func statusText(views []statusView, causes []string, columns int) string {
	roles, contents, notes := [][]string{}, [][]string{}, []string{}
	for i := range views {
		v := &views[i]
		if v.Error != "" {
			roles = append(roles, []string{v.Endpoint, "-", "-", "-", "-", "-", "no"})
			notes = append(notes, v.Endpoint+" does not answer: "+causes[i])
			continue
		}
		roles = append(roles, roleRow(v))
		contents = append(contents, contentsRow(v))
		notes = append(notes, v.notes()...)
	}
	text := cli.Table([]string{"ENDPOINT", "NODE", "ROLE", "MODE", "LEADER", "APPLIED", "READY"}, roles)
	if len(contents) > 0 {
		text += "\n\n" + cli.Table([]string{"NODE", "TERM", "COMMIT", "SESSIONS", "ATTACHED", "STATE", "TREE", "WATCHES"},
			contents)
		notes = slices.Concat(builds(views), notes)
	}
	if frozen := frozenText(views); frozen != "" {
		notes = append(notes, frozen)
	}
	return text + "\n" + cli.Paragraphs(notes, columns)
}

func roleRow(v *statusView) []string {
	leader := "-"
	if v.Leader != 0 {
		leader = cli.Number(v.Leader)
	}
	ready := cli.YesNo(v.Ready)
	switch {
	case v.Drain != nil && v.Drain.Done:
		ready = "DRAINED"
	case v.Drain != nil:
		ready = "DRAINING"
	}
	return []string{
		v.Endpoint, cli.Number(v.Node), v.Role, words.OrDash(v.Mode), leader, cli.Number(v.AppliedIndex), ready,
	}
}

func contentsRow(v *statusView) []string {
	return []string{
		cli.Number(v.Node), cli.Number(v.Term), cli.Number(v.CommitIndex),
		cli.UsedOf(v.SessionsGlobal, v.MaxSessions, cli.Number),
		cli.Number(v.SessionsAttached),
		cli.UsedOf(v.StateBytes, v.MaxStateBytes, words.Bytes), treeText(v), cli.Number(v.Watches),
	}
}

// notes says why the node is not ready, what its drain waits for, and its warning.
func (v *statusView) notes() (notes []string) {
	of := fmt.Sprintf("node %d", v.Node)
	if v.Drain != nil {
		if left := v.Drain.remaining(); left != "" {
			notes = append(notes, of+" is being drained: "+left)
		}
	} else if v.NotReadyBecause != "" {
		notes = append(notes, of+" is not ready: "+v.NotReadyBecause)
	}
	if v.Warning != "" {
		notes = append(notes, of+" warns: "+v.Warning)
	}
	return notes
}

// builds lists the versions of the nodes and the feature level of the cluster.
func builds(views []statusView) (lines []string) {
	nodes := map[string][]string{}
	var order []string
	for i := range views {
		v := &views[i]
		if v.Error != "" {
			continue
		}
		build := fmt.Sprintf("version %s, feature level %d", words.OrDash(v.Version), v.FeatureLevel)
		if nodes[build] == nil {
			order = append(order, build)
		}
		nodes[build] = append(nodes[build], cli.Number(v.Node))
	}
	for _, build := range order {
		if len(order) > 1 {
			build += ": node " + strings.Join(nodes[build], ", ")
		}
		lines = append(lines, build)
	}
	return lines
}
