# Shared by everything in src/.
shout() { echo "${*^^}"; }
