// The command etcd is etcd's server, as its own release builds it, for the comparison of test/bench. It is a module of
// its own, so that Holdfast requires nothing of etcd.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
