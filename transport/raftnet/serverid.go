package raftnet

import (
	"errors"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"

	"holdfast/session"
)

// Directories are the data directories of nodes.
type Directories map[session.Node]Directory

// ServerID returns Raft's id for a node: the node's number and its directory. A node on another directory is another
// server, and Raft counts no vote and no entry of the former server for it.
func ServerID(n session.Node, d Directory) raft.ServerID {
	return raft.ServerID(strconv.Itoa(int(n)) + "-" + d.String())
}

// ParseServerID is the inverse of [ServerID].
func ParseServerID(id raft.ServerID) (session.Node, Directory, error) {
	number, directory, _ := strings.Cut(string(id), "-")
	n, err := strconv.ParseUint(number, 10, 8)
	if err != nil || !session.Node(n).Valid() {
		return 0, 0, errors.New("a server's id begins with the number of its node, 1 to 254")
	}
	d, err := ParseDirectory(directory)
	return session.Node(n), d, err
}
