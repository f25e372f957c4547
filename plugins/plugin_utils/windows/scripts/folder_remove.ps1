# storlab: folder_remove
# parts: empty_folders
# The folder with all that is in it, and those above it that are empty then.
param([string]$Folder)
if (Test-Path -LiteralPath $Folder) { Remove-Item -LiteralPath $Folder -Recurse -Force }
Remove-EmptyAbove -Folder $Folder
