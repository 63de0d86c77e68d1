import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * Clients whose list of servers changes while they are connected, as servers_test.go runs them:
 * java -cp ... ServerLists.java CONNECT-STRING-OF-THREE. It prints a line for each list with the clients of each server,
 * and ends with 1 when a session is lost or a watch not told.
 */
public class ServerLists {
    private static final int CLIENTS = 24;
    private static final int WAIT = 60;
    private static final Pattern REMOTE = Pattern.compile("remoteserver:\\S*?:(\\d+) ");

    /** A client, and the session that it began with. */
    private static class Client implements Watcher {
        final ZooKeeper zk;
        final CountDownLatch begun = new CountDownLatch(1);
        volatile String lost = "";
        volatile CountDownLatch told = new CountDownLatch(1);
        long session;

        Client(String servers) throws Exception {
            zk = new ZooKeeper(servers, 20_000, this);
        }

        @Override
        public void process(WatchedEvent event) {
            if (event.getType() == Event.EventType.NodeDataChanged) {
                told.countDown();
            } else if (event.getState() == Event.KeeperState.SyncConnected) {
                begun.countDown();
            } else if (event.getState() != Event.KeeperState.Disconnected && event.getState() != Event.KeeperState.Closed) {
                lost = event.toString();
            }
        }

        /** The port of the server, "" while there is none. */
        String at() {
            Matcher found = REMOTE.matcher(zk.toString());
            return zk.getState().isConnected() && found.find() ? found.group(1) : "";
        }
    }

    public static void main(String[] args) throws Exception {
        int code = 0;
        try {
            run(args[0].split(","));
        } catch (Throwable failed) {
            failed.printStackTrace(System.out);
            code = 1;
        }
        System.out.flush();
        System.exit(code);
    }

    private static void run(String[] servers) throws Exception {
        List<Client> all = new ArrayList<>();
        for (int i = 0; i < CLIENTS; i++) {
            Client one = new Client(servers[0]);
            all.add(one);
            check("a session", one.begun.await(WAIT, TimeUnit.SECONDS));
            one.session = one.zk.getSessionId();
            one.zk.create("/client-" + i, null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        }
        all.get(0).zk.create("/lists", null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        change(all, servers[0]);
        change(all, servers[0], servers[1], servers[2]);
        change(all, servers[1], servers[2]);
        change(all, servers[2]);
        change(all, servers[0], servers[1]);
        change(all, servers[0], servers[1], servers[2]);
        for (Client one : all) {
            one.zk.close();
        }
    }

    /** Gives all clients a list, and looks at their sessions and watches then. */
    private static void change(List<Client> all, String... servers) throws Exception {
        for (Client one : all) {
            one.zk.sync("/lists", (rc, path, ctx) -> { }, null);
            one.told = new CountDownLatch(1);
            again(() -> one.zk.getData("/lists", true, null));
        }
        List<String> ports = new ArrayList<>();
        for (String server : servers) {
            ports.add(server.substring(server.lastIndexOf(':') + 1));
        }
        for (Client one : all) {
            one.zk.updateServerList(String.join(",", servers));
        }
        for (Client one : all) {
            until("a server of " + ports + ": " + one.zk, () -> ports.contains(one.at()));
        }
        again(() -> all.get(0).zk.setData("/lists", null, -1));
        Map<String, Integer> at = new TreeMap<>();
        for (int i = 0; i < CLIENTS; i++) {
            Client one = all.get(i);
            check("client " + i + " is told", one.told.await(WAIT, TimeUnit.SECONDS));
            String path = "/client-" + i;
            Stat mine = again(() -> one.zk.exists(path, false));
            check("its session " + one.zk + one.lost, one.lost.isEmpty() && one.zk.getSessionId() == one.session
                    && mine != null && mine.getEphemeralOwner() == one.session);
            until("a server of " + ports + ": " + one.zk, () -> ports.contains(one.at()));
            at.merge(one.at(), 1, Integer::sum);
        }
        System.out.println("= of " + String.join(",", ports) + ":" + at);
        System.out.flush();
    }

    /** Makes a call again after a lost connection: a client may still be about to leave its server. */
    private static <T> T again(Callable<T> call) throws Exception {
        while (true) {
            try {
                return call.call();
            } catch (KeeperException.ConnectionLossException lost) {
                Thread.sleep(20);
            }
        }
    }

    private static void until(String what, Callable<Boolean> met) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT);
        while (!met.call()) {
            check(what, System.nanoTime() < end);
            Thread.sleep(20);
        }
    }

    private static void check(String what, boolean is) {
        if (!is) {
            throw new IllegalStateException(what);
        }
    }
}
