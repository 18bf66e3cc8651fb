// Search of pages that are opened from a folder: browsers start no workers there, so the theme's search runs in a frame.
// It stands before the theme's scripts, which make a `Worker`; with a server it does nothing.
"use strict";
if (location.protocol === "file:") {
  globalThis.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #waiting = []; // messages to a script that has not been read

    constructor(url) {
      super();
      const source = String(url).replace(/&/g, "&amp;").replace(/"/g, "&quot;");
      this.#frame.hidden = true;
      this.#frame.title = "search";
      // A constant hides the frame's own `postMessage` from the script of the search, and leaves it to this page.
      this.#frame.srcdoc =
        '<script>const postMessage = (answer) => parent.postMessage(answer, "*")</scr' +
        `ipt><script src="${source}"></scr` +
        "ipt>";
      this.#frame.addEventListener("load", () => {
        for (const message of this.#waiting.splice(0)) this.#send(message);
        this.#waiting = null;
      });
      addEventListener("message", (event) => {
        if (event.source !== this.#frame.contentWindow) return;
        event.stopImmediatePropagation();
        this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      });
      document.body.append(this.#frame);
    }

    postMessage(message) {
      if (this.#waiting) this.#waiting.push(message);
      else this.#send(message);
    }

    #send(message) {
      this.#frame.contentWindow.postMessage(message, "*"); // pages of a folder have no origin to name
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
