package entry

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"holdfast/fsm/codec"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
	"holdfast/tree/store"
)

// The commands of the tree, decoded. The embedded TreeCommand has the bytes that the log has. Callers must not change
// them.
type (
	// Write is a write of a session.
	Write struct {
		session.TreeCommand
		tree.NumberedWrite
	}
	// Acknowledge lets the state forget results that clients have received.
	Acknowledge struct {
		session.TreeCommand
		Acknowledged []tree.Acknowledgement
	}
	// Reap removes entries that have come due.
	Reap struct {
		session.TreeCommand
		Due []store.Reapable
	}
)

// TreeCommand returns the encoded form of a command of the tree. It reports false for other commands.
func TreeCommand(c session.Command) (session.TreeCommand, bool) {
	switch c := c.(type) {
	case session.TreeCommand:
		return c, true
	case Write:
		return c.TreeCommand, true
	case Acknowledge:
		return c.TreeCommand, true
	case Reap:
		return c.TreeCommand, true
	default:
		return session.TreeCommand{}, false
	}
}

// treeCommandFrom decodes a command of the tree from the bytes of a Command. It returns nil for other commands. The
// command shares memory with the bytes.
func treeCommandFrom(command []byte) (session.Command, error) {
	kind := form.KindOf(command)
	if kind == form.Other {
		return nil, nil //nolint:nilnil // another command
	}
	as := session.TreeCommand{Encoded: command, Weight: 1}
	if err := checkTreeCommand(as); err != nil {
		return nil, err
	}
	switch kind {
	case form.Write:
		w, err := form.ParseWrite(command)
		if err != nil {
			return nil, fmt.Errorf("write: %w", err)
		}
		as.Weight = tree.Weight(w.Transaction)
		return Write{as, w}, nil
	case form.Acknowledge:
		all, err := form.ParseAcknowledge(command)
		if err != nil {
			return nil, fmt.Errorf("acknowledge: %w", err)
		}
		return Acknowledge{as, all}, nil
	case form.Reap:
		due, err := form.ParseReap(command)
		if err != nil {
			return nil, fmt.Errorf("reap: %w", err)
		}
		as.Weight = 0
		for _, one := range due {
			as.Weight += tree.RemovalWeight(one.Path)
		}
		return Reap{as, due}, nil
	case form.Other:
	}
	return nil, nil //nolint:nilnil // another command
}

// treeCommandOf decodes a command of the tree with package tree/form, which reports what is wrong.
func treeCommandOf(of *logv1.Command) (session.Command, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("reading a command of the tree: %w", err)
	}
	return treeCommandFrom(b)
}

func checkTreeCommand(c session.TreeCommand) error {
	switch {
	case form.KindOf(c.Encoded) == form.Other:
		return codec.OutOfRange("command", "one of the tree's")
	case len(c.Encoded) > session.MaxCommandBytes:
		return codec.OutOfRange("command", fmt.Sprintf("at most %d bytes", session.MaxCommandBytes))
	}
	return nil
}
