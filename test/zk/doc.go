// Package zk holds the nodes' port for ZooKeeper's clients against real clients and a real ZooKeeper. Its tests run
// real processes on loopback, with the build tag e2e. They need packages of Debian, and each names those that it lacks.
//
//   - TestAsZooKeeper plays random scripts of requests to both. What differs on purpose is a table of the document.
//   - TestMixedWatches does so with watches of all kinds on one path and on those above it.
//   - TestCommandLines has the same dialogue with both, through zkCli and the C client's cli_mt.
//   - TestCurator and TestCuratorMoves run an application of Curator, Application.java, while a node is killed, and
//     through a move from a ZooKeeper.
//   - TestServerLists changes the lists of servers of clients of Java, C and Python.
//   - TestGoZooKeeper has the calls of go-zookeeper, through nodes that end.
//   - TestStrangers sends what no client sends, or nothing, through thousands of connections.
//   - TestKazoo runs the test suite of kazoo, which stops and starts nodes.
package zk
