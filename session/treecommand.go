package session

// TreeCommand is a command of the tree, in the form of the log. The node that makes it encodes it, so that a leader
// passes on what nodes send without reading it (W1, W2).
type TreeCommand struct {
	// Encoded is a Command of holdfast.log.v1, without tag and length: what package tree/form writes. It is not modified.
	Encoded []byte
	// Weight is how much work it makes, 1 or more (U2).
	Weight int
	// Source is where a write comes from. It is not in the log.
	Source Source
}

func (TreeCommand) command() {}
