// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Search without a server: browsers run no workers from file: addresses, so the search worker runs in a
// hidden frame. The theme looks for a script of this name and would load one from the network.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html>";
      frame.addEventListener("load", () => this.start(frame.contentWindow, url), { once: true });
      document.body.append(frame);
    }

    start(inner, url) {
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inner.document.createElement("script");
      script.src = url;
      script.addEventListener("load", () => {
        this.inner = inner;
        this.waiting.forEach((data) => this.postMessage(data));
      });
      inner.document.body.append(script);
    }

    postMessage(data) {
      if (this.inner) this.inner.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }
  };
}
