// Browsers run no worker for a page that is opened as a file. The search of the site is a worker: on such a page its script
// runs in a hidden frame instead. The plugin "offline" loads a script from the network unless one with this name is given.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html>";
      this.inside = new Promise((ready) => {
        frame.onload = () => {
          const script = frame.contentDocument.createElement("script");
          script.src = new URL(url, document.baseURI);
          script.onload = () => ready(frame.contentWindow);
          frame.contentWindow.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          frame.contentDocument.body.append(script);
        };
      });
      document.documentElement.append(frame);
    }

    postMessage(data) {
      this.inside.then((frame) => frame.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
