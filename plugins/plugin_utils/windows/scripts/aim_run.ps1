# storlab: aim_run
# parts: program
# Runs the program of Arsenal Image Mounter. It waits without an end for a disk that does not appear, so it is ended after a while.
param([string]$Program, [string]$Arguments)
$Ansible.Result = Invoke-Program -Path $Program -Arguments $Arguments -LimitMs 300000
