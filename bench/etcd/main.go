// The command etcd is etcd's server, as its own release builds it, for the comparison of bench. With the argument
// "contend" it is clients of such servers. It is a module of its own, so that Holdfast requires nothing of etcd.
package main

import (
	"context"
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "contend" {
		if err := contend(context.Background(), os.Args[2], os.Args[3], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "etcd contend:", err)
			os.Exit(1)
		}
		return
	}
	etcdmain.Main(os.Args)
}
