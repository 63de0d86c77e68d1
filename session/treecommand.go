package session

// TreeCommand is a command of the tree, in the form of the log. The node of its client encodes it, so that a leader
// passes commands on without reading them (W1 path of a write, W2 the state decides).
type TreeCommand struct {
	// Encoded is a Command of holdfast.log.v1, without tag and length, as package tree/form encodes it. It is not
	// modified.
	Encoded []byte
	// Weight is the command's amount of work, 1 or more (U2 weight).
	Weight int
	// Source is the origin of a write. It is not in the log.
	Source Source
}

func (TreeCommand) command() {}
