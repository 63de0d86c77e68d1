package system

import (
	"context"
	_ "embed"
	"errors"
)

const (
	// python is Debian's interpreter: the package python3-kazoo is for that one.
	python = "/usr/bin/python3"
	// KazooFile is there if kazoo is.
	KazooFile = "/usr/lib/python3/dist-packages/kazoo/recipe/lock.py"
)

//go:embed kazoo.py
var kazooContest string

// Kazoo is ZooKeeper, spoken to by kazoo, a client in Python that has a recipe for locks.
type Kazoo struct{ ZooKeeper }

// Name is that of the column.
func (Kazoo) Name() string { return "ZooKeeper, kazoo" }

// Start starts the servers.
func (k Kazoo) Start(ctx context.Context, dir string, size int) (Cluster, error) {
	c, err := k.ZooKeeper.Start(ctx, dir, size)
	if err != nil {
		return nil, err
	}
	return &kazooEnsemble{c.(*ensemble)}, nil //nolint:errcheck // ZooKeeper's own
}

// LocksOnly says that other works are ZooKeeper's own.
func (Kazoo) LocksOnly() {}

// kazooEnsemble is a cluster whose clients are kazoo's.
type kazooEnsemble struct{ *ensemble }

// Connect refuses: this process does not speak through kazoo.
func (*kazooEnsemble) Connect(context.Context, int) (Conn, error) { return nil, errors.ErrUnsupported }

// Contest starts a process with the clients.
func (e *kazooEnsemble) Contest(ctx context.Context, servers []int) (Contest, error) {
	return runProgram(ctx, []string{python, "-c", kazooContest}, places(e.addresses, servers))
}
