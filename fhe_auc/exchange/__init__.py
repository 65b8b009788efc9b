"""Where messages between roles lie: a folder that several users reach, or a URL."""
