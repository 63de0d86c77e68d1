"use strict";
// Pages are complete without this script. With it they update themselves: the server reports changes over one event
// stream, and the page reloads its content when a change concerns it. The overview plots the samples of the last hour.
(() => {
  const content = document.getElementById("content");
  const live = document.getElementById("live");
  const reloadOn = (content.dataset.reloadOn || "").split(" ").filter(Boolean);
  const minReloadInterval = 2000; // ms between two reloads of the content
  const retryDelay = 5000; // ms between a failed reload and the next one
  const staleAfter = 15000; // ms without an event, or with a change that is not shown, until the page says so

  // What the page shows about its own state. Its content is current only while missedSince is 0.
  let lastContact = Date.now(); // when the newest event was received
  let streamError = ""; // the error of the stream, until it delivers again
  let reloadError = ""; // the error of the newest reload, until one succeeds
  let missedSince = 0; // when the first change arrived that the content does not show, 0 if it shows all
  // moreThan describes a duration in few steps: a screen reader reads out each change.
  const moreThan = (ms) => {
    const [, text] = [[3600e3, "an hour"], [600e3, "10 minutes"], [60e3, "a minute"]].find(([from]) => ms >= from) ||
      [0, staleAfter / 1000 + " s"];
    return "more than " + text;
  };
  const staleness = () => {
    const quiet = Date.now() - lastContact;
    if (reloadError || streamError) return reloadError || streamError;
    if (quiet > staleAfter) return "No data received for " + moreThan(quiet) + ".";
    if (missedSince && Date.now() - missedSince > staleAfter) {
      return hasSelection() ? "Updates are paused while text is selected." : "A change is not shown yet.";
    }
    return "";
  };
  const showState = () => {
    const stale = staleness();
    const text = stale ? "Stale. " + stale : reloadOn.length ? "Live" : "This page does not update itself.";
    if (live.textContent !== text) live.textContent = text;
    live.classList.toggle("stale", stale !== "");
  };

  // Reloads of the content. Elements with data-keep stay: forms that a person fills in, and the plots.
  let nextReload = 0, timer = 0, loading = false; // nextReload is the earliest time of the next reload
  const hasSelection = () => {
    const s = document.getSelection();
    return s && !s.isCollapsed && content.contains(s.anchorNode);
  };
  // keyOf identifies a focusable element in this content and in the next: by a link's address, a control's form and
  // place, or a region's label.
  const keyOf = (one) => {
    const form = one.closest("form");
    const names = ["id", "href", "aria-labelledby", "aria-label"].map((name) => one.getAttribute(name));
    if (one.id || !form) return names.join("\n");
    const hidden = [...form.querySelectorAll("input[type=hidden]")].map((input) => input.name + "=" + input.value);
    const place = [...form.querySelectorAll("input, select, textarea, button")].indexOf(one);
    return [form.getAttribute("action"), ...hidden, place].join("\n");
  };
  // saveFocus returns a function that restores the focus in new content: to the same element, to the element with the
  // same key, or else to the content. Otherwise the Tab key would start at the top of the page.
  const saveFocus = () => {
    const focused = document.activeElement;
    if (!focused || !content.contains(focused) || focused === content) return () => {};
    const all = "a[href], button, input, select, textarea, [tabindex], .events";
    const withKey = (key) => [...content.querySelectorAll(all)].filter((one) => keyOf(one) === key);
    const key = keyOf(focused), nth = withKey(key).indexOf(focused);
    const {selectionStart: from = null, selectionEnd: to, selectionDirection: way} = focused;
    return () => {
      const same = withKey(key);
      const one = focused.isConnected ? focused : nth >= 0 && (same[nth] || same[0]) || content;
      one.focus({preventScroll: true});
      if (one === focused && from !== null) one.setSelectionRange(from, to, way);
    };
  };
  const replaceContent = (fresh) => {
    const restoreFocus = saveFocus();
    const kept = new Map(), scrolled = [];
    for (const one of content.querySelectorAll("[data-keep]")) kept.set(one.dataset.keep, one);
    for (const one of content.querySelectorAll(".wide, pre, .events")) scrolled.push([one.scrollLeft, one.scrollTop]);
    for (const one of fresh.querySelectorAll("[data-keep]")) {
      const old = kept.get(one.dataset.keep);
      if (old) one.replaceWith(old);
    }
    const edited = content.querySelector('[data-keep="edit"]');
    content.replaceChildren(...fresh.childNodes);
    if (edited && !edited.isConnected) content.append(edited);
    content.querySelectorAll(".wide, pre, .events").forEach((one, i) => {
      if (scrolled[i]) [one.scrollLeft, one.scrollTop] = scrolled[i];
    });
    restoreFocus();
  };
  // fetchContent loads and shows the content. It returns the error, or the empty text.
  const fetchContent = async () => {
    try {
      const answer = await fetch(location.href, {
        headers: {"Holdfast-Part": "content"}, redirect: "error", signal: AbortSignal.timeout(staleAfter),
      });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!answer.ok) {
        return page.querySelector("[role=alert]")?.textContent || "The node answered " + answer.status + ".";
      }
      if (hasSelection()) missedSince ||= Date.now(); // selected during the load
      else replaceContent(page.body);
      return "";
    } catch {
      return "Cannot reach the node.";
    }
  };
  // A change during a reload may be missing from its result. Such a change stays missed until a later reload succeeds,
  // as after a failed reload or a selection: there may never be another event.
  const reload = async () => {
    timer = 0;
    if (document.hidden) return; // the page reloads once it is visible again
    if (hasSelection()) {
      nextReload = Date.now() + minReloadInterval;
    } else {
      const before = missedSince;
      loading = true;
      missedSince = 0;
      reloadError = await fetchContent();
      if (reloadError) missedSince = before;
      nextReload = Date.now() + (reloadError ? retryDelay : minReloadInterval);
      loading = false;
    }
    showState();
    schedule();
  };
  const schedule = () => {
    if (missedSince && !timer && !loading) timer = setTimeout(reload, Math.max(0, nextReload - Date.now()));
  };
  const requestReload = () => {
    if (!reloadOn.length) return;
    missedSince ||= Date.now();
    schedule();
  };

  // The stream. A hidden page closes it: browsers have few connections for one host.
  let stream = null;
  const open = () => {
    if (stream) return;
    lastContact = Date.now();
    stream = new EventSource("/ui/events");
    const on = (kind, handle) => stream.addEventListener(kind, (e) => {
      lastContact = Date.now();
      streamError = "";
      handle(e);
      showState();
    });
    on("open", () => {}); // also after a reconnect
    on("begin", requestReload);
    on("reload", () => { requestReload(); plots?.load(); });
    on("heartbeat", () => {});
    on("status", () => { if (reloadOn.includes("status")) requestReload(); });
    on("log", () => { if (reloadOn.includes("log")) requestReload(); });
    on("sample", (e) => {
      if (reloadOn.includes("sample")) requestReload();
      plots?.add(JSON.parse(e.data));
    });
    stream.addEventListener("error", () => {
      streamError = "The event stream is broken."; // shown within a second, unless the stream is back before
      if (stream && stream.readyState === EventSource.CLOSED) { // the browser does not reconnect by itself
        stream = null;
        setTimeout(() => { if (!document.hidden) open(); }, 3000);
      }
    });
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      stream?.close();
      stream = null;
    } else {
      open();
      plots?.load();
      requestReload();
    }
  });

  // The plots.
  const groups = [
    ["Sessions", "", [["sessions", "replicated"], ["attached", "attached"], ["local", "local"]]],
    ["Opened and moved", "per second", [["opens", "opened"], ["moves", "moved"]]],
    ["Ended", "per second", [["closes", "closed"], ["expiries", "expired"], ["kills", "killed"]]],
    ["Commit and disk", "ms", [["commit_ms", "commit"], ["sync_ms", "disk"], ["apply_ms", "apply"]]],
    ["Round trips to members", "ms", [["round_trip_ms", "slowest"]]],
    ["Remaining promise at a touch", "ms", [["promise_ms", "lowest"]]],
    ["Expiry lateness and watch delay", "ms", [["lateness_ms", "expiry"], ["watch_ms", "watch"]]],
    ["Tree", "per second", [["reads", "reads"], ["writes", "writes"], ["events", "events"]]],
  ];
  const maxSamples = 720;
  const short = (v) => v == null ? "–" : Math.abs(v) >= 1e6 ? (v / 1e6).toPrecision(3) + " M" :
    Math.abs(v) >= 1e4 ? (v / 1e3).toPrecision(3) + " k" : String(+v.toPrecision(3));
  // isolated returns the indexes of values without neighbours. A line has no length there: they are drawn as points.
  const isolated = (values) => {
    const found = values.flatMap((v, i) => v != null && values[i - 1] == null && values[i + 1] == null ? [i] : []);
    return found.length ? found : null;
  };
  const makePlots = (parent) => {
    const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    let data = {t: [], values: {}};
    let plotted = [];
    const draw = () => {
      for (const one of plotted) one.plot.destroy();
      parent.replaceChildren();
      plotted = groups.map(([title, unit, lines]) => {
        const figure = document.createElement("figure"), caption = document.createElement("figcaption");
        const head = document.createElement("b");
        head.textContent = title + (unit ? ", " + unit : "");
        caption.append(head);
        const now = lines.map(([, name], i) => {
          const span = document.createElement("span");
          span.className = "now c" + (i + 1);
          caption.append(span);
          return [span, name];
        });
        figure.append(caption);
        figure.setAttribute("role", "group");
        parent.append(figure);
        const axis = {stroke: color("--quiet"), grid: {stroke: color("--line"), width: 1}, ticks: {stroke: color("--line")},
          font: "12px system-ui, sans-serif"};
        const plot = new uPlot({
          tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"), // like all times on the pages
          width: Math.max(200, figure.clientWidth - 14), height: 150, legend: {show: false}, cursor: {drag: {x: false, y: false}},
          // Without a minute of samples the time axis would show years.
          scales: {
            x: {range: (_, lo, hi) => {
              const end = hi ?? Date.now() / 1000;
              return [Math.min(lo ?? end, end - 60), end];
            }},
            y: {range: (_, lo, hi) => [0, hi > 0 ? hi * 1.1 : 1]},
          },
          axes: [axis, {...axis, size: 52, values: (_, v) => v.map(short)}],
          series: [{}, ...lines.map(([, name], i) => ({label: name, stroke: color("--plot-" + (i + 1)), width: 1.5,
            spanGaps: false, points: {size: 5, fill: color("--plot-" + (i + 1)), filter: (u, at, all) => all ? null : isolated(u.data[at])}}))],
        }, [[], ...lines.map(() => [])], figure);
        return {plot, lines, now};
      });
      show();
    };
    const show = () => {
      for (const {plot, lines, now} of plotted) {
        plot.setData([data.t, ...lines.map(([name]) => data.values[name] || [])]);
        now.forEach(([span, name], i) => {
          span.textContent = name + " " + short((data.values[lines[i][0]] || []).at(-1));
        });
      }
    };
    const add = (more) => {
      if (data.t.length && more.t[0] <= data.t.at(-1)) return;
      data.t = data.t.concat(more.t).slice(-maxSamples);
      for (const name of Object.keys(more.values)) {
        data.values[name] = (data.values[name] || []).concat(more.values[name]).slice(-maxSamples);
      }
      show();
    };
    const load = async () => {
      try {
        const answer = await fetch("/ui/samples");
        if (answer.ok) {
          data = await answer.json();
          show();
        }
      } catch { /* the event stream reports the failure */ }
    };
    let width = 0;
    new ResizeObserver(() => {
      if (parent.clientWidth !== width) {
        width = parent.clientWidth;
        draw();
      }
    }).observe(parent);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    return {load, add};
  };
  const place = document.getElementById("plots");
  const plots = place && makePlots(place);
  plots?.load();
  open();
  setInterval(showState, 1000);
  showState();
})();
