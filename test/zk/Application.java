import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;

/**
 * An application of Curator, as curator_test.go runs it: java -cp ... Application.java recipes|work CONNECT-STRING. It
 * prints a line for each thing that works, and ends with 1 when one does not within a minute.
 */
public class Application {
    private static final int WAIT = 60;
    private static final BufferedReader IN = new BufferedReader(new InputStreamReader(System.in));

    public static void main(String[] args) throws Exception {
        int code = 0;
        try {
            if (args[0].equals("recipes")) {
                recipes(args[1]);
            } else {
                work(args[1]);
            }
        } catch (Throwable failed) {
            failed.printStackTrace(System.out);
            code = 1;
        }
        System.out.flush();
        System.exit(code);
    }

    /** Has the recipes, through the kill of the server that the application is connected to. */
    private static void recipes(String servers) throws Exception {
        try (CuratorFramework a = begin(servers); CuratorFramework b = begin(servers)) {
            mutex(a, b);
            leaders(a, b);
            caches(a, b);
            killed(a, b);
        }
    }

    private static CuratorFramework begin(String servers) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(servers, 10_000, 15_000, new RetryNTimes(200, 100));
        client.start();
        check("a connection", client.blockUntilConnected(WAIT, TimeUnit.SECONDS));
        return client;
    }

    /** Threads of two clients take one lock in turn. */
    private static void mutex(CuratorFramework a, CuratorFramework b) throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger turns = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        BlockingQueue<String> wrong = new LinkedBlockingQueue<>();
        for (int i = 0; i < 6; i++) {
            InterProcessMutex lock = new InterProcessMutex(i % 2 == 0 ? a : b, "/curator/lock");
            Thread one = new Thread(() -> {
                try {
                    for (int turn = 0; turn < 5; turn++) {
                        lock.acquire();
                        if (inside.incrementAndGet() != 1) {
                            wrong.add("two have the lock");
                        }
                        turns.incrementAndGet();
                        inside.decrementAndGet();
                        lock.release();
                    }
                } catch (Exception failed) {
                    wrong.add(failed.toString());
                }
            });
            one.start();
            threads.add(one);
        }
        for (Thread one : threads) {
            one.join();
        }
        check("InterProcessMutex " + wrong, wrong.isEmpty() && turns.get() == 30);
        say("InterProcessMutex");
    }

    /** The second client leads when the first one leaves. */
    private static void leaders(CuratorFramework a, CuratorFramework b) throws Exception {
        LeaderLatch first = new LeaderLatch(a, "/curator/leader", "a");
        first.start();
        check("the first leads", first.await(WAIT, TimeUnit.SECONDS));
        try (LeaderLatch second = new LeaderLatch(b, "/curator/leader", "b")) {
            second.start();
            until("two take part", () -> first.getParticipants().size() == 2);
            check("one leads", !second.hasLeadership() && second.getLeader().getId().equals("a"));
            first.close();
            check("the second leads", second.await(WAIT, TimeUnit.SECONDS));
        }
        say("LeaderLatch");
    }

    /** Both kinds of cache follow what another client writes: by a lasting watch, and by one-shot watches. */
    private static void caches(CuratorFramework a, CuratorFramework b) throws Exception {
        b.create().creatingParentsIfNeeded().forPath("/curator/cache/first", bytes("1"));
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        try (CuratorCache lasting = CuratorCache.build(a, "/curator/cache");
                TreeCache old = TreeCache.newBuilder(a, "/curator/cache").build()) {
            lasting.listenable().addListener(CuratorCacheListener.builder().forAll((type, before, now) ->
                    heard.add(type + " " + (now != null ? now : before).getPath())).build());
            lasting.start();
            old.start();
            follow(lasting, old, "/curator/cache/first", "1");
            b.setData().forPath("/curator/cache/first", bytes("2"));
            follow(lasting, old, "/curator/cache/first", "2");
            b.create().forPath("/curator/cache/second", bytes("3"));
            follow(lasting, old, "/curator/cache/second", "3");
            b.delete().forPath("/curator/cache/first");
            follow(lasting, old, "/curator/cache/first", null);
            until("events " + heard, () -> heard.contains("NODE_CREATED /curator/cache/second")
                    && heard.contains("NODE_CHANGED /curator/cache/first")
                    && heard.contains("NODE_DELETED /curator/cache/first"));
            say("CuratorCache");
            say("TreeCache");
        }
    }

    private static void follow(CuratorCache lasting, TreeCache old, String path, String data) throws Exception {
        until("CuratorCache has " + path + " " + data,
                () -> same(lasting.get(path).map(one -> one.getData()).orElse(null), data));
        until("TreeCache has " + path + " " + data,
                () -> same(old.getCurrentData(path) == null ? null : old.getCurrentData(path).getData(), data));
    }

    /** The session, its ephemeral, its leadership and its caches go on when its server is killed. */
    private static void killed(CuratorFramework a, CuratorFramework b) throws Exception {
        BlockingQueue<ConnectionState> states = new LinkedBlockingQueue<>();
        a.getConnectionStateListenable().addListener((client, state) -> states.add(state));
        try (PersistentNode own = new PersistentNode(a, CreateMode.EPHEMERAL, false, "/curator/own", bytes("own"));
                LeaderLatch latch = new LeaderLatch(a, "/curator/leader", "a");
                CuratorCache lasting = CuratorCache.build(a, "/curator/kept");
                TreeCache old = TreeCache.newBuilder(a, "/curator/kept").build()) {
            own.start();
            check("the ephemeral is made", own.waitForInitialCreate(WAIT, TimeUnit.SECONDS));
            latch.start();
            check("it leads", latch.await(WAIT, TimeUnit.SECONDS));
            b.create().forPath("/curator/kept", bytes("before"));
            lasting.start();
            old.start();
            follow(lasting, old, "/curator/kept", "before");
            say("PersistentNode");
            long session = a.getZookeeperClient().getZooKeeper().getSessionId();
            String of = a.getZookeeperClient().getZooKeeper().toString();
            say("kill " + of.replaceAll("(?s).*remoteserver:\\S*:(\\d+) .*", "$1"));
            check("the kill", "killed".equals(IN.readLine()));
            check("SUSPENDED first", states.poll(WAIT, TimeUnit.SECONDS) == ConnectionState.SUSPENDED);
            check("RECONNECTED then", states.poll(WAIT, TimeUnit.SECONDS) == ConnectionState.RECONNECTED);
            b.setData().forPath("/curator/kept", bytes("after"));
            follow(lasting, old, "/curator/kept", "after");
            check("the session is the same", a.getZookeeperClient().getZooKeeper().getSessionId() == session);
            until("it leads again", latch::hasLeadership);
            b.sync().forPath("/curator/own");
            check("the ephemeral is the session's", b.checkExists().forPath("/curator/own").getEphemeralOwner() == session);
            check("no other state: " + states, states.isEmpty());
            say("connection states");
        }
        until("the ephemeral is gone", () -> b.checkExists().forPath("/curator/own") == null);
    }

    /** Works for a while, and tells how far it has come. It can go on elsewhere with a copy of what it has written. */
    private static void work(String servers) throws Exception {
        try (CuratorFramework client = begin(servers);
                PersistentNode own = new PersistentNode(client, CreateMode.EPHEMERAL, false, "/app/members/me",
                        bytes("me"))) {
            own.start();
            check("the ephemeral is made", own.waitForInitialCreate(WAIT, TimeUnit.SECONDS));
            DistributedAtomicLong count = new DistributedAtomicLong(client, "/app/count", new RetryNTimes(10, 100));
            InterProcessMutex lock = new InterProcessMutex(client, "/app/lock");
            String job = "";
            for (int i = 0; i < 5; i++) {
                check("the lock", lock.acquire(WAIT, TimeUnit.SECONDS));
                check("the count", count.increment().succeeded());
                job = client.create().creatingParentsIfNeeded().withMode(CreateMode.PERSISTENT_SEQUENTIAL)
                        .forPath("/app/jobs/job-", bytes("job"));
                lock.release();
            }
            say("count " + count.get().postValue());
            say("job " + job);
            say("members " + client.getChildren().forPath("/app/members"));
            say("servers " + client.getZookeeperClient().getCurrentConnectionString());
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(java.nio.charset.StandardCharsets.UTF_8);
    }

    private static boolean same(byte[] data, String text) {
        return data == null ? text == null : new String(data, java.nio.charset.StandardCharsets.UTF_8).equals(text);
    }

    private static void until(String what, Callable<Boolean> holds) throws Exception {
        long late = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT);
        while (!holds.call()) {
            check(what, System.nanoTime() < late);
            Thread.sleep(10);
        }
    }

    private static void check(String what, boolean holds) {
        if (!holds) {
            throw new IllegalStateException("not so: " + what);
        }
    }

    private static void say(String line) {
        System.out.println("= " + line);
        System.out.flush();
    }
}
