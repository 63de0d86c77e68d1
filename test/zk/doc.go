// Package zk plays random scripts of requests to a cluster's ZooKeeper port and to ZooKeeper itself, and compares what
// both answer. Its tests run real processes on loopback, with the build tag e2e, and need Debian's packages zookeeper and
// libzookeeper-java.
package zk
