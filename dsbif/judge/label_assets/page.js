// Comfort only: every page works without it.
addEventListener("keydown", (event) => {
  const audio = document.querySelector("audio");
  const typing = event.target.matches("textarea, input[type=number]");
  if (audio && !typing && event.key.toLowerCase() === "p" && !event.ctrlKey && !event.metaKey && !event.altKey) {
    if (audio.paused) audio.play();
    else audio.pause();
    event.preventDefault();
  }
});
